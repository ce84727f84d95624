#include "resource_manager/cluster_proto.h"

#include "base/status_macros.h"

namespace switchtower {

void Encode(const WorkerInfo& worker, WorkerProto* proto) {
  proto->set_id(worker.id.value);
  proto->set_slice(worker.slice);
  proto->set_slice_number(worker.slice_number);
  proto->set_host_index(worker.host_index);
  proto->set_num_devices(worker.num_devices);
  DeviceTypeProto* type = proto->mutable_device_type();
  type->set_platform(worker.device_type.platform);
  type->set_device_kind(worker.device_type.device_kind);
  type->set_instruction_set(worker.device_type.instruction_set);
  for (const std::string& kind : worker.device_type.memory_kinds) type->add_memory_kinds(kind);
  proto->set_host_id(worker.host_id);
  for (const std::string& address : worker.command_addresses) proto->add_command_addresses(address);
  for (const std::string& address : worker.data_addresses) proto->add_data_addresses(address);
}

void Encode(const SliceInfo& slice, SliceProto* proto) {
  proto->set_name(slice.name);
  proto->set_number(slice.number);
  proto->set_type(slice.type);
  proto->set_num_hosts(slice.num_hosts);
  proto->set_devices_per_host(slice.devices_per_host);
  for (const WorkerInfo& worker : slice.workers) Encode(worker, proto->add_workers());
}

void Encode(const LeaseState& state, LeaseStateProto* proto) {
  proto->set_lease_id(state.id);
  proto->set_exclusive(state.exclusive);
  proto->set_version(state.version);
  proto->set_home_epoch(state.home_epoch);
  proto->set_secret(state.secret);
  for (const SliceInfo& slice : state.slices) Encode(slice, proto->add_slices());
}

void Encode(const absl::Status& status, ErrorProto* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
}

absl::StatusOr<WorkerInfo> Decode(const WorkerProto& proto) {
  if (proto.host_index() < -1 || proto.num_devices() < 0) {
    return absl::InvalidArgumentError("a worker's description has a negative number in it");
  }
  WorkerInfo worker;
  worker.id = WorkerId{proto.id()};
  worker.slice = proto.slice();
  worker.slice_number = proto.slice_number();
  worker.host_index = proto.host_index();
  worker.num_devices = proto.num_devices();
  worker.device_type.platform = proto.device_type().platform();
  worker.device_type.device_kind = proto.device_type().device_kind();
  worker.device_type.instruction_set = proto.device_type().instruction_set();
  worker.device_type.memory_kinds.assign(proto.device_type().memory_kinds().begin(),
                                         proto.device_type().memory_kinds().end());
  worker.host_id = proto.host_id();
  worker.command_addresses.assign(proto.command_addresses().begin(), proto.command_addresses().end());
  worker.data_addresses.assign(proto.data_addresses().begin(), proto.data_addresses().end());
  return worker;
}

absl::StatusOr<SliceInfo> Decode(const SliceProto& proto) {
  if (proto.num_hosts() < 0 || proto.devices_per_host() < 0) {
    return absl::InvalidArgumentError("a slice's description has a negative number in it");
  }
  SliceInfo slice;
  slice.name = proto.name();
  slice.number = proto.number();
  slice.type = proto.type();
  slice.num_hosts = proto.num_hosts();
  slice.devices_per_host = proto.devices_per_host();
  for (const WorkerProto& worker : proto.workers()) {
    ASSIGN_OR_RETURN(WorkerInfo info, Decode(worker));
    slice.workers.push_back(std::move(info));
  }
  return slice;
}

absl::StatusOr<LeaseState> Decode(const LeaseStateProto& proto) {
  LeaseState state;
  state.id = proto.lease_id();
  state.exclusive = proto.exclusive();
  state.version = proto.version();
  state.home_epoch = proto.home_epoch();
  state.secret = proto.secret();
  for (const SliceProto& slice : proto.slices()) {
    ASSIGN_OR_RETURN(SliceInfo info, Decode(slice));
    state.slices.push_back(std::move(info));
  }
  return state;
}

absl::Status Decode(const ErrorProto& proto) {
  const auto code = static_cast<absl::StatusCode>(proto.code());
  if (code == absl::StatusCode::kOk) return absl::UnknownError(proto.message());
  return absl::Status(code, proto.message());
}

}  // namespace switchtower
