#include <variant>

#include "base/status_macros.h"
#include "switchtower/worker.pb.h"
#include "wire/worker/activity_codec.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/value_codec.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

namespace pb = ::switchtower::worker;
using worker_wire::CauseFromProto;
using worker_wire::FromProto;
using worker_wire::ToProto;

void Encode(const Watermark& in, pb::WorkerEvent* event) { ToProto(in.completed, event->mutable_watermark()); }

void Encode(const LaunchFailed& in, pb::WorkerEvent* event) {
  pb::LaunchFailed* out = event->mutable_launch_failed();
  ToProto(in.launch, out->mutable_launch());
  out->set_session(in.session.value);
  ToProto(in.cause, out->mutable_cause());
  out->set_origin(in.origin);
}

void Encode(const Ready& in, pb::WorkerEvent* event) {
  event->mutable_ready()->set_request(in.request.value);
  if (!in.status.ok()) ToProto(in.status, event->mutable_ready()->mutable_status());
}

void Encode(const ReadData& in, pb::WorkerEvent* event) {
  event->mutable_read_data()->set_request(in.request.value);
  event->mutable_read_data()->set_last(in.last);
  if (!in.status.ok()) ToProto(in.status, event->mutable_read_data()->mutable_status());
}

void Encode(const ProgramLoadFailed& in, pb::WorkerEvent* event) {
  event->mutable_program_load_failed()->set_program(in.program.hash);
  ToProto(in.cause, event->mutable_program_load_failed()->mutable_cause());
}

void Encode(const HostCall& in, pb::WorkerEvent* event) {
  pb::HostCall* out = event->mutable_host_call();
  out->set_request(in.request.value);
  ToProto(in.launch, out->mutable_launch());
  out->set_session(in.session.value);
  out->set_rank(in.rank);
  out->set_callback(in.callback);
  for (const Shape& shape : in.operands) ToProto(shape, out->add_operands());
  for (const Shape& shape : in.results) ToProto(shape, out->add_results());
}

void Encode(const MemoryInUse& in, pb::WorkerEvent* event) {
  event->mutable_memory_in_use()->set_request(in.request.value);
  for (const MemoryInUse::Device& device : in.devices) {
    pb::MemoryInUse::Device* out = event->mutable_memory_in_use()->add_devices();
    out->set_bytes(device.bytes);
    out->set_peak_bytes(device.peak_bytes);
  }
}

MemoryInUse Decode(const pb::MemoryInUse& in) {
  MemoryInUse out{RequestId{in.request()}, {}};
  for (const pb::MemoryInUse::Device& device : in.devices())
    out.devices.push_back({device.bytes(), device.peak_bytes()});
  return out;
}

void Encode(const LaunchTimes& in, pb::WorkerEvent* event) {
  pb::LaunchTimes* times = event->mutable_launch_times();
  for (const LaunchTimes::Span& span : in.spans) {
    pb::LaunchTimes::Span* out = times->add_spans();
    ToProto(span.launch, out->mutable_launch());
    out->set_ordinal(span.ordinal);
    out->set_begin_ns(span.begin_ns);
    out->set_end_ns(span.end_ns);
  }
}

absl::StatusOr<LaunchTimes> Decode(const pb::LaunchTimes& in) {
  LaunchTimes out;
  out.spans.reserve(in.spans_size());
  for (const pb::LaunchTimes::Span& span : in.spans()) {
    if (span.ordinal() < 0 || span.begin_ns() < 0 || span.end_ns() < span.begin_ns()) {
      return absl::InvalidArgumentError("worker event: a launch that ended before it began, or on no device");
    }
    out.spans.push_back({FromProto(span.launch()), span.ordinal(), span.begin_ns(), span.end_ns()});
  }
  return out;
}

template <typename Repeated>
absl::StatusOr<std::vector<Shape>> ShapesFrom(const Repeated& in) {
  std::vector<Shape> shapes;
  for (const pb::Shape& shape : in) {
    ASSIGN_OR_RETURN(shapes.emplace_back(), FromProto(shape));
  }
  return shapes;
}

absl::StatusOr<HostCall> Decode(const pb::HostCall& in, std::string_view payload) {
  HostCall out;
  out.request = RequestId{in.request()};
  out.launch = FromProto(in.launch());
  out.session = SessionId{in.session()};
  out.rank = in.rank();
  out.callback = in.callback();
  ASSIGN_OR_RETURN(out.operands, ShapesFrom(in.operands()));
  ASSIGN_OR_RETURN(out.results, ShapesFrom(in.results()));
  int64_t left = static_cast<int64_t>(payload.size());
  for (const Shape& shape : out.operands) left = PackedBytes(shape) > left ? -1 : left - PackedBytes(shape);
  if (left != 0) {
    return absl::InvalidArgumentError("worker event: a host call whose operands aren't as long as they say");
  }
  out.data = worker_wire::PayloadCopy(payload);
  return out;
}

void Encode(const WorkerStats& in, pb::WorkerEvent* event) {
  pb::WorkerStats* out = event->mutable_stats();
  out->set_launches(in.launches);
  out->set_collectives(in.collectives);
  out->set_bytes_in_memory(in.bytes_in_memory);
  out->set_bytes_shared_memory(in.bytes_shared_memory);
  out->set_bytes_tcp(in.bytes_tcp);
  out->set_bytes_put(in.bytes_put);
  out->set_bytes_read(in.bytes_read);
  out->set_buffer_bytes(in.buffer_bytes);
  out->set_buffers(in.buffers);
  for (uint64_t busy : in.busy_ns) out->add_busy_ns(busy);
}

WorkerStats Decode(const pb::WorkerStats& in) {
  WorkerStats out;
  out.launches = in.launches();
  out.collectives = in.collectives();
  out.bytes_in_memory = in.bytes_in_memory();
  out.bytes_shared_memory = in.bytes_shared_memory();
  out.bytes_tcp = in.bytes_tcp();
  out.bytes_put = in.bytes_put();
  out.bytes_read = in.bytes_read();
  out.buffer_bytes = in.buffer_bytes();
  out.buffers = in.buffers();
  out.busy_ns.assign(in.busy_ns().begin(), in.busy_ns().end());
  return out;
}

void Encode(const TransferTimes& in, pb::WorkerEvent* event) {
  event->mutable_transfer_times();
  for (const TransferTimes::Span& span : in.spans) {
    pb::TransferTimes::Span* out = event->mutable_transfer_times()->add_spans();
    ToProto(span.transfer, out->mutable_transfer());
    out->set_to(span.to.value);
    out->set_bytes(span.bytes);
    out->set_begin_ns(span.begin_ns);
    out->set_end_ns(span.end_ns);
  }
}

absl::StatusOr<TransferTimes> Decode(const pb::TransferTimes& in) {
  TransferTimes out;
  out.spans.reserve(in.spans_size());
  for (const pb::TransferTimes::Span& span : in.spans()) {
    if (span.begin_ns() < 0 || span.end_ns() < span.begin_ns()) {
      return absl::InvalidArgumentError("worker event: a transfer that ended before it began");
    }
    out.spans.push_back(
        {FromProto(span.transfer()), WorkerId{span.to()}, span.bytes(), span.begin_ns(), span.end_ns()});
  }
  return out;
}

void Encode(const WorkerActivity& in, pb::WorkerEvent* event) { worker_wire::ToProto(in, event->mutable_activity()); }

}  // namespace

std::string EncodeEventHead(const WorkerEvent& event) {
  pb::WorkerEvent out;
  std::visit([&](const auto& in) { Encode(in, &out); }, event);
  return worker_wire::FrameHead(out);
}

std::shared_ptr<const std::string> EventPayload(const WorkerEvent& event) {
  if (const auto* read = std::get_if<ReadData>(&event)) return read->data;
  if (const auto* call = std::get_if<HostCall>(&event)) return call->data;
  return nullptr;
}

absl::StatusOr<WorkerEvent> DecodeEvent(std::string_view body) {
  pb::WorkerEvent in;
  std::string_view payload;
  RETURN_IF_ERROR(worker_wire::CutBody(body, &in, &payload));
  switch (in.event_case()) {
    case pb::WorkerEvent::kWatermark:
      return Watermark{FromProto(in.watermark())};
    case pb::WorkerEvent::kLaunchFailed: {
      LaunchFailed out{FromProto(in.launch_failed().launch()),
                       SessionId{in.launch_failed().session()},
                       {},
                       in.launch_failed().origin()};
      RETURN_IF_ERROR(CauseFromProto(in.launch_failed().cause(), &out.cause));
      return out;
    }
    case pb::WorkerEvent::kReady: {
      Ready out{RequestId{in.ready().request()}, {}};
      RETURN_IF_ERROR(FromProto(in.ready().status(), &out.status));
      return out;
    }
    case pb::WorkerEvent::kReadData: {
      ReadData out{RequestId{in.read_data().request()}, worker_wire::PayloadCopy(payload), in.read_data().last(), {}};
      RETURN_IF_ERROR(FromProto(in.read_data().status(), &out.status));
      return out;
    }
    case pb::WorkerEvent::kProgramLoadFailed: {
      ProgramLoadFailed out{ProgramId{in.program_load_failed().program()}, {}};
      RETURN_IF_ERROR(CauseFromProto(in.program_load_failed().cause(), &out.cause));
      return out;
    }
    case pb::WorkerEvent::kStats:
      return Decode(in.stats());
    case pb::WorkerEvent::kMemoryInUse:
      return Decode(in.memory_in_use());
    case pb::WorkerEvent::kLaunchTimes:
      return Decode(in.launch_times());
    case pb::WorkerEvent::kActivity:
      return worker_wire::FromProto(in.activity());
    case pb::WorkerEvent::kTransferTimes:
      return Decode(in.transfer_times());
    case pb::WorkerEvent::kHostCall:
      return Decode(in.host_call(), payload);
    case pb::WorkerEvent::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("worker event: of no known kind");
}

}  // namespace switchtower
