#include <type_traits>
#include <variant>

#include "switchtower/worker.pb.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/value_codec.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

namespace pb = ::switchtower::worker;
using worker_wire::ToProto;

void Add(const std::vector<ArrayId>& ids, google::protobuf::RepeatedField<uint64_t>* out) {
  out->Reserve(static_cast<int>(ids.size()));
  for (ArrayId id : ids) out->AddAlreadyReserved(id.value);
}

template <typename Repeated>
void Add(const std::vector<PhysicalDevice>& devices, Repeated* out) {
  for (const PhysicalDevice& device : devices) ToProto(device, out->Add());
}

void Encode(const SetPeers& in, pb::WorkerCommand* command) {
  for (const WorkerEndpoint& peer : in.peers) {
    pb::SetPeers::Peer* out = command->mutable_set_peers()->add_peers();
    out->set_worker(peer.worker.value);
    out->set_host_id(peer.host_id);
    for (const std::string& address : peer.addresses) out->add_addresses(address);
    out->set_secret(peer.secret);
  }
  command->mutable_set_peers();
}

void Encode(const DefineGang& in, pb::WorkerCommand* command) {
  pb::DefineGang* out = command->mutable_define_gang();
  out->set_gang(in.gang.value);
  pb::DefineGang::Run* run = nullptr;
  for (const PhysicalDevice& rank : in.ranks) {
    if (run == nullptr || run->worker() != rank.worker.value || run->first_ordinal() + run->count() != rank.ordinal) {
      run = out->add_runs();
      run->set_worker(rank.worker.value);
      run->set_first_ordinal(rank.ordinal);
    }
    run->set_count(run->count() + 1);
  }
}

void Encode(const DropGang& in, pb::WorkerCommand* command) { command->mutable_drop_gang()->set_gang(in.gang.value); }

void Encode(const LoadProgram& in, pb::WorkerCommand* command) {
  pb::LoadProgram* out = command->mutable_load_program();
  out->set_program(in.program.hash);
  out->set_name(in.name);
  out->set_num_parameters(in.num_parameters);
  out->set_num_results(in.num_results);
  out->set_calls_client(in.calls_client);
}

void Encode(const UnloadProgram& in, pb::WorkerCommand* command) {
  command->mutable_unload_program()->set_program(in.program.hash);
}

void Encode(const Launch& in, pb::WorkerCommand* command) {
  pb::Launch* out = command->mutable_launch();
  ToProto(in.id, out->mutable_id());
  out->set_session(in.session.value);
  out->set_program(in.program.hash);
  out->set_gang(in.gang.value);
  Add(in.arguments, out->mutable_arguments());
  Add(in.results, out->mutable_results());
  out->mutable_donated()->Add(in.donated.begin(), in.donated.end());
  out->set_client_launch_id(in.client_launch_id);
  out->set_awaited(in.awaited);
}

void Encode(const CancelLaunch& in, pb::WorkerCommand* command) {
  pb::CancelLaunch* out = command->mutable_cancel_launch();
  ToProto(in.launch, out->mutable_launch());
  ToProto(in.cause, out->mutable_cause());
}

void Encode(const PutArray& in, pb::WorkerCommand* command) {
  pb::PutArray* out = command->mutable_put_array();
  out->set_session(in.array.session.value);
  out->set_array(in.array.array.value);
  Add(in.devices, out->mutable_devices());
  ToProto(in.shard_shape, out->mutable_shard_shape());
  if (in.byte_strides.has_value()) ToProto(*in.byte_strides, out->mutable_byte_strides());
  ToProto(in.layout, out->mutable_layout());
  out->set_memory_kind(in.memory_kind);
  out->set_stream(in.stream.value);
  out->set_stream_bytes(in.stream_bytes);
}

void Encode(const StreamChunk& in, pb::WorkerCommand* command) {
  pb::StreamChunk* out = command->mutable_stream_chunk();
  out->set_stream(in.stream.value);
  out->set_last(in.last);
  out->set_uses(in.uses);
  if (!in.error.ok()) ToProto(in.error, out->mutable_error());
}

void Encode(const BindArrays& in, pb::WorkerCommand* command) {
  pb::BindArrays* out = command->mutable_bind_arrays();
  out->set_session(in.session.value);
  for (const BindArrays::Binding& binding : in.bindings) {
    pb::BindArrays::Binding* added = out->add_bindings();
    added->set_from(binding.from.value);
    added->set_to(binding.to.value);
    ToProto(binding.device, added->mutable_device());
  }
}

void Encode(const PutError& in, pb::WorkerCommand* command) {
  pb::PutError* out = command->mutable_put_error();
  out->set_session(in.array.session.value);
  out->set_array(in.array.array.value);
  Add(in.devices, out->mutable_devices());
  ToProto(in.error, out->mutable_error());
}

void Encode(const TransferArray& in, pb::WorkerCommand* command) {
  pb::TransferArray* out = command->mutable_transfer_array();
  ToProto(in.id, out->mutable_id());
  out->set_session(in.session.value);
  out->set_from(in.from.value);
  out->set_to(in.to.value);
  for (const TransferArray::Destination& destination : in.destinations) {
    pb::TransferArray::Destination* added = out->add_destinations();
    ToProto(destination.device, added->mutable_device());
    ToProto(destination.shard_shape, added->mutable_shard_shape());
  }
  ToProto(in.layout, out->mutable_layout());
  out->set_memory_kind(in.memory_kind);
  for (const TransferArray::Piece& piece : in.pieces) {
    pb::TransferArray::Piece* added = out->add_pieces();
    ToProto(piece.source, added->mutable_source());
    ToProto(piece.destination, added->mutable_destination());
    ToProto(piece.source_box, added->mutable_source_box());
    ToProto(piece.destination_box, added->mutable_destination_box());
  }
}

void Encode(const ReadShard& in, pb::WorkerCommand* command) {
  pb::ReadShard* out = command->mutable_read_shard();
  out->set_request(in.request.value);
  out->set_session(in.array.session.value);
  out->set_array(in.array.array.value);
  ToProto(in.device, out->mutable_device());
  if (in.byte_strides.has_value()) ToProto(*in.byte_strides, out->mutable_byte_strides());
}

void Encode(const AwaitReady& in, pb::WorkerCommand* command) {
  pb::AwaitReady* out = command->mutable_await_ready();
  out->set_request(in.request.value);
  out->set_session(in.session.value);
  Add(in.arrays, out->mutable_arrays());
}

void Encode(const DeleteArrays& in, pb::WorkerCommand* command) {
  pb::DeleteArrays* out = command->mutable_delete_arrays();
  out->set_session(in.session.value);
  Add(in.arrays, out->mutable_arrays());
}

void Encode(const EndSession& in, pb::WorkerCommand* command) {
  command->mutable_end_session()->set_session(in.session.value);
}

void Encode(const AskMemory& in, pb::WorkerCommand* command) {
  command->mutable_ask_memory()->set_request(in.request.value);
}

void Encode(const ReportTimes& in, pb::WorkerCommand* command) { command->mutable_report_times()->set_on(in.on); }
void Encode(const AskActivity& in, pb::WorkerCommand* command) {
  command->mutable_ask_activity()->set_request(in.request.value);
}

void Encode(const ReturnHostCall& in, pb::WorkerCommand* command) {
  command->mutable_return_host_call()->set_request(in.request.value);
  if (!in.status.ok()) ToProto(in.status, command->mutable_return_host_call()->mutable_status());
}

}  // namespace

std::string EncodeCommandHead(const WorkerCommand& command) {
  pb::WorkerCommand out;
  std::visit([&](const auto& in) { Encode(in, &out); }, command);
  return worker_wire::FrameHead(out);
}

std::shared_ptr<const std::string> CommandPayload(const WorkerCommand& command) {
  if (const auto* load = std::get_if<LoadProgram>(&command)) return load->executable;
  if (const auto* chunk = std::get_if<StreamChunk>(&command)) return chunk->data;
  if (const auto* answer = std::get_if<ReturnHostCall>(&command)) return answer->data;
  return nullptr;
}

}  // namespace switchtower
