#include "inspect/snapshot_proto.h"

#include "base/utf8.h"

namespace switchtower {
namespace {

namespace pb = introspection;

void ToProto(const LaunchId& in, pb::LaunchId* out) {
  out->set_epoch(in.epoch);
  out->set_number(in.number);
}

void ToProto(const DevicePlace& in, pb::DevicePlace* out) {
  out->set_seat(in.seat);
  out->set_ordinal(in.ordinal);
}

template <typename Ids>
void Add(const Ids& ids, google::protobuf::RepeatedField<uint64_t>* out) {
  for (const auto& id : ids) out->Add(id.value);
}

void ToProto(const WorkerStats& in, pb::Stats* out) {
  out->set_launches(in.launches);
  out->set_collectives(in.collectives);
  out->set_bytes_in_memory(in.bytes_in_memory);
  out->set_bytes_shared_memory(in.bytes_shared_memory);
  out->set_bytes_tcp(in.bytes_tcp);
  out->set_bytes_put(in.bytes_put);
  out->set_bytes_read(in.bytes_read);
  out->set_buffer_bytes(in.buffer_bytes);
  out->set_buffers(in.buffers);
}

void ToProto(const WorkerActivity::Device& in, pb::Activity::Device* out) {
  for (const WorkerActivity::Task& task : in.tasks) {
    pb::Activity::Task* added = out->add_tasks();
    ToProto(task.launch, added->mutable_launch());
    added->set_rank(task.rank);
    added->set_program(ToUtf8(task.program));
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

void ToProto(const WorkerActivity& in, pb::Activity* out) {
  for (const auto& device : in.devices) ToProto(device, out->add_devices());
  for (const WorkerActivity::Transfer& transfer : in.transfers) {
    pb::Activity::Transfer* added = out->add_transfers();
    ToProto(transfer.id, added->mutable_id());
    added->set_session(transfer.session.value);
    added->set_from(transfer.from.value);
    added->set_to(transfer.to.value);
    added->set_ordinal(transfer.ordinal);
    for (WorkerId source : transfer.sources) added->add_sources(source.value);
    added->set_bytes_missing(transfer.bytes_missing);
    added->set_age_us(transfer.age_us);
  }
  for (const WorkerActivity::Upload& upload : in.uploads) {
    pb::Activity::Upload* added = out->add_uploads();
    added->set_session(upload.session.value);
    added->set_array(upload.array.value);
    added->set_bytes_here(upload.bytes_here);
    added->set_bytes_expected(upload.bytes_expected);
  }
  for (const WorkerActivity::Call& call : in.calls) {
    pb::Activity::Call* added = out->add_calls();
    ToProto(call.launch, added->mutable_launch());
    added->set_rank(call.rank);
    added->set_callback(call.callback);
    added->set_age_us(call.age_us);
  }
  for (const std::string& fault : in.fault_points) out->add_fault_points(ToUtf8(fault));
}

pb::Worker::State StateOf(WorkerSnapshot::State state) {
  switch (state) {
    case WorkerSnapshot::State::kUp:
      return pb::Worker::UP;
    case WorkerSnapshot::State::kDown:
      return pb::Worker::DOWN;
    case WorkerSnapshot::State::kWaiting:
      break;
  }
  return pb::Worker::WAITING;
}

void ToProto(const WorkerSnapshot& in, pb::Worker* out) {
  out->set_seat(in.seat);
  out->set_id(in.id.value);
  out->set_name(ToUtf8(in.name));
  out->set_state(StateOf(in.state));
  out->set_num_devices(in.num_devices);
  out->set_commands_sent(in.commands_sent);
  out->set_queued_bytes(in.queued_bytes);
  ToProto(in.stats, out->mutable_stats());
  if (in.activity.has_value()) ToProto(*in.activity, out->mutable_activity());
  out->set_silent_us(in.silent_us);
}

void ToProto(const SessionSnapshot& in, pb::Session* out) {
  out->set_id(in.id.value);
  out->set_peer(ToUtf8(in.peer));
  out->set_launches_sent(in.launches_sent);
  out->set_launches_in_flight(in.launches_in_flight);
  out->set_operations_queued(in.operations_queued);
  out->set_waits_for(in.waits_for);
  out->set_compiles(in.compiles);
  out->set_compiles_waiting(in.compiles_waiting);
  out->set_compile_age_us(in.compile_age_us);
  for (const QueuedSnapshot& queued : in.queue) {
    pb::Session::Queued* added = out->add_queue();
    added->set_what(ToUtf8(queued.what));
    added->set_call_site(ToUtf8(queued.call_site));
    Add(queued.uses, added->mutable_uses());
    Add(queued.makes, added->mutable_makes());
    added->set_waits_for(ToUtf8(queued.waits_for));
  }
  for (const SessionSnapshot::Device& device : in.devices) {
    pb::Session::Device* added = out->add_devices();
    added->set_id(device.id.value);
    ToProto(device.place, added->mutable_place());
  }
}

void ToProto(const LaunchSnapshot& in, pb::Launch* out) {
  ToProto(in.id, out->mutable_id());
  out->set_session(in.session.value);
  out->set_program(in.program.hash);
  out->set_name(ToUtf8(in.name));
  out->set_source(ToUtf8(in.source));
  out->set_call_site(ToUtf8(in.call_site));
  out->set_client_launch_id(in.client_launch_id);
  out->set_age_us(in.age_us);
  for (const DevicePlace& place : in.ranks) ToProto(place, out->add_ranks());
  Add(in.arguments, out->mutable_arguments());
  Add(in.results, out->mutable_results());
  out->mutable_open_seats()->Add(in.open_seats.begin(), in.open_seats.end());
  out->set_error(ToUtf8(in.error));
}

void ToProto(const CollectiveSnapshot& in, pb::Collective* out) {
  ToProto(in.launch, out->mutable_launch());
  out->set_op_id(in.op_id);
  out->set_iteration(in.iteration);
  out->set_group(in.group);
  out->set_kind(ToUtf8(in.kind));
  out->set_name(ToUtf8(in.name));
  out->set_source(ToUtf8(in.source));
  out->mutable_ranks_in()->Add(in.ranks_in.begin(), in.ranks_in.end());
  out->mutable_ranks_out()->Add(in.ranks_out.begin(), in.ranks_out.end());
  out->mutable_ranks_unknown()->Add(in.ranks_unknown.begin(), in.ranks_unknown.end());
  out->set_age_us(in.age_us);
}

void ToProto(const HomeSnapshot& in, pb::Home* out) {
  out->set_slices(ToUtf8(in.slices));
  out->set_epoch(in.epoch);
  out->set_device_memory(in.device_memory);
  out->set_launches(in.launches);
  out->set_launches_in_flight(in.launches_in_flight);
  out->set_transfers(in.transfers);
  out->set_puts(in.puts);
  out->set_reads(in.reads);
  for (const WorkerSnapshot& worker : in.workers) ToProto(worker, out->add_workers());
  for (const SessionSnapshot& session : in.sessions) ToProto(session, out->add_sessions());
  for (const ProgramSnapshot& program : in.programs) {
    pb::Program* added = out->add_programs();
    added->set_id(program.id.hash);
    added->set_name(ToUtf8(program.name));
    added->set_source(ToUtf8(program.source));
    added->set_num_partitions(program.num_partitions);
    added->set_uses(program.uses);
    added->set_workers(program.workers);
  }
  for (const LaunchSnapshot& launch : in.in_flight) ToProto(launch, out->add_in_flight());
  for (const WaitSnapshot& wait : in.waits) {
    pb::Wait* added = out->add_waits();
    added->set_session(wait.session.value);
    added->set_read(wait.read);
    Add(wait.arrays, added->mutable_arrays());
    added->mutable_open_seats()->Add(wait.open_seats.begin(), wait.open_seats.end());
    added->set_age_us(wait.age_us);
  }
  for (const std::string& peer : in.opening) out->add_opening(ToUtf8(peer));
  for (const CollectiveSnapshot& collective : in.collectives) ToProto(collective, out->add_collectives());
}

}  // namespace

void ToProto(const ControllerSnapshot& in, introspection::Snapshot* out) {
  for (const HomeSnapshot& home : in.homes) ToProto(home, out->add_homes());
}

void ToProto(const std::vector<SliceInfo>& in, const std::vector<SliceHome>& homes, introspection::Snapshot* out) {
  for (const SliceInfo& slice : in) {
    pb::Slice* added = out->add_slices();
    added->set_name(ToUtf8(slice.name));
    added->set_type(ToUtf8(slice.type));
    added->set_num_hosts(slice.num_hosts);
    added->set_devices_per_host(slice.devices_per_host);
    for (const WorkerInfo& worker : slice.workers) added->add_hosts_in(worker.host_index);
    for (const SliceHome& home : homes) {
      if (home.slice != slice.name) continue;
      added->set_home_epoch(home.epoch);
      added->set_shared(home.shared);
      added->set_home_door(ToUtf8(home.door));
    }
  }
}

void ToProto(const std::vector<RelayedSession>& in, introspection::Snapshot* out) {
  for (const RelayedSession& session : in) {
    pb::RelayedSession* added = out->add_relayed();
    added->set_id(session.id.value);
    added->set_peer(ToUtf8(session.peer));
    added->set_home(ToUtf8(session.home));
  }
}

}  // namespace switchtower
