#include "wire/worker/activity_codec.h"

#include "wire/worker/value_codec.h"

namespace switchtower::worker_wire {
namespace {

// Beside those below, which would hide them.
using worker_wire::FromProto;
using worker_wire::ToProto;

void ToProto(const WorkerActivity::Device& in, pb::WorkerActivity::Device* out) {
  for (const WorkerActivity::Task& task : in.tasks) {
    pb::WorkerActivity::Task* added = out->add_tasks();
    ToProto(task.launch, added->mutable_launch());
    added->set_rank(task.rank);
    added->set_program(task.program);
    added->set_running(task.running);
    added->set_age_us(task.age_us);
    added->set_program_loading(task.program_loading);
    added->mutable_missing_arguments()->Add(task.missing_arguments.begin(), task.missing_arguments.end());
  }
  out->set_queued(in.queued);
  out->set_bytes(in.bytes);
  out->set_peak_bytes(in.peak_bytes);
  out->set_busy_ns(in.busy_ns);
}

WorkerActivity::Device FromProto(const pb::WorkerActivity::Device& in) {
  WorkerActivity::Device out;
  for (const pb::WorkerActivity::Task& task : in.tasks()) {
    out.tasks.push_back({FromProto(task.launch()),
                         task.rank(),
                         task.program(),
                         task.running(),
                         task.age_us(),
                         task.program_loading(),
                         {task.missing_arguments().begin(), task.missing_arguments().end()}});
  }
  out.queued = in.queued();
  out.bytes = in.bytes();
  out.peak_bytes = in.peak_bytes();
  out.busy_ns = in.busy_ns();
  return out;
}

void ToProto(const WorkerActivity::Collective& in, pb::WorkerActivity::Collective* out) {
  ToProto(in.launch, out->mutable_launch());
  out->set_op_id(in.op_id);
  out->set_iteration(in.iteration);
  out->set_group(in.group);
  out->set_kind(in.kind);
  out->mutable_ranks_in()->Add(in.ranks_in.begin(), in.ranks_in.end());
  out->mutable_ranks_open()->Add(in.ranks_open.begin(), in.ranks_open.end());
  out->set_age_us(in.age_us);
}

WorkerActivity::Collective FromProto(const pb::WorkerActivity::Collective& in) {
  return {FromProto(in.launch()),
          in.op_id(),
          in.iteration(),
          in.group(),
          in.kind(),
          {in.ranks_in().begin(), in.ranks_in().end()},
          {in.ranks_open().begin(), in.ranks_open().end()},
          in.age_us()};
}

void ToProto(const WorkerActivity::Transfer& in, pb::WorkerActivity::Transfer* out) {
  ToProto(in.id, out->mutable_id());
  out->set_session(in.session.value);
  out->set_from(in.from.value);
  out->set_to(in.to.value);
  out->set_ordinal(in.ordinal);
  for (WorkerId source : in.sources) out->add_sources(source.value);
  out->set_bytes_missing(in.bytes_missing);
  out->set_age_us(in.age_us);
}

WorkerActivity::Transfer FromProto(const pb::WorkerActivity::Transfer& in) {
  WorkerActivity::Transfer out{FromProto(in.id()), SessionId{in.session()},
                               ArrayId{in.from()}, ArrayId{in.to()},
                               in.ordinal(),       {},
                               in.bytes_missing(), in.age_us()};
  for (uint64_t source : in.sources()) out.sources.push_back(WorkerId{source});
  return out;
}

}  // namespace

void ToProto(const WorkerActivity& in, pb::WorkerActivity* out) {
  out->set_request(in.request.value);
  for (const auto& device : in.devices) ToProto(device, out->add_devices());
  for (const auto& collective : in.collectives) ToProto(collective, out->add_collectives());
  for (const auto& transfer : in.transfers) ToProto(transfer, out->add_transfers());
  for (const auto& upload : in.uploads) {
    pb::WorkerActivity::Upload* added = out->add_uploads();
    added->set_session(upload.session.value);
    added->set_array(upload.array.value);
    added->set_bytes_here(upload.bytes_here);
    added->set_bytes_expected(upload.bytes_expected);
  }
  for (const auto& call : in.calls) {
    pb::WorkerActivity::Call* added = out->add_calls();
    ToProto(call.launch, added->mutable_launch());
    added->set_rank(call.rank);
    added->set_callback(call.callback);
    added->set_age_us(call.age_us);
  }
  for (const std::string& fault : in.fault_points) out->add_fault_points(fault);
}

WorkerActivity FromProto(const pb::WorkerActivity& in) {
  WorkerActivity out;
  out.request = RequestId{in.request()};
  for (const auto& device : in.devices()) out.devices.push_back(FromProto(device));
  for (const auto& collective : in.collectives()) out.collectives.push_back(FromProto(collective));
  for (const auto& transfer : in.transfers()) out.transfers.push_back(FromProto(transfer));
  for (const auto& upload : in.uploads()) {
    out.uploads.push_back(
        {SessionId{upload.session()}, ArrayId{upload.array()}, upload.bytes_here(), upload.bytes_expected()});
  }
  for (const auto& call : in.calls()) {
    out.calls.push_back({FromProto(call.launch()), call.rank(), call.callback(), call.age_us()});
  }
  out.fault_points.assign(in.fault_points().begin(), in.fault_points().end());
  return out;
}

}  // namespace switchtower::worker_wire
