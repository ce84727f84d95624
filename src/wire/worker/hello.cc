#include "wire/worker/hello.h"

#include "base/status_macros.h"
#include "switchtower/worker.pb.h"
#include "wire/worker/value_codec.h"

namespace switchtower {
namespace {

namespace pb = ::switchtower::worker;

template <typename Message>
absl::Status Parse(std::string_view body, const char* what, Message* message) {
  if (body.size() > kHelloBytesMax || !message->ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::InvalidArgumentError(std::string("not a ") + what);
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeHello(const ControllerHello& hello) {
  pb::ControllerHello out;
  out.set_protocol_version(hello.protocol_version);
  out.set_cluster_id(hello.cluster_id);
  out.set_worker(hello.worker.value);
  out.set_lease_secret(hello.lease_secret);
  out.set_home_epoch(hello.home_epoch);
  out.set_controller(hello.controller);
  return out.SerializeAsString();
}

absl::StatusOr<ControllerHello> DecodeHello(std::string_view body) {
  pb::ControllerHello in;
  RETURN_IF_ERROR(Parse(body, "controller's hello", &in));
  ControllerHello hello;
  hello.protocol_version = in.protocol_version();
  hello.cluster_id = in.cluster_id();
  hello.worker = WorkerId{in.worker()};
  hello.lease_secret = in.lease_secret();
  hello.home_epoch = in.home_epoch();
  hello.controller = in.controller();
  return hello;
}

std::string EncodeHelloReply(const WorkerHelloReply& reply) {
  pb::WorkerHelloReply out;
  out.set_protocol_version(reply.protocol_version);
  worker_wire::ToProto(reply.status, out.mutable_status());
  out.set_worker(reply.worker.value);
  out.set_num_devices(reply.num_devices);
  out.set_platform(reply.device_type.platform);
  out.set_device_kind(reply.device_type.device_kind);
  out.set_instruction_set(reply.device_type.instruction_set);
  for (const std::string& kind : reply.device_type.memory_kinds) out.add_memory_kinds(kind);
  return out.SerializeAsString();
}

absl::StatusOr<WorkerHelloReply> DecodeHelloReply(std::string_view body) {
  pb::WorkerHelloReply in;
  RETURN_IF_ERROR(Parse(body, "worker's hello reply", &in));
  WorkerHelloReply reply;
  reply.protocol_version = in.protocol_version();
  RETURN_IF_ERROR(worker_wire::FromProto(in.status(), &reply.status));
  reply.worker = WorkerId{in.worker()};
  reply.num_devices = in.num_devices();
  reply.device_type.platform = in.platform();
  reply.device_type.device_kind = in.device_kind();
  reply.device_type.instruction_set = in.instruction_set();
  reply.device_type.memory_kinds.assign(in.memory_kinds().begin(), in.memory_kinds().end());
  return reply;
}

}  // namespace switchtower
