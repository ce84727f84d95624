#include <utility>

#include "base/status_macros.h"
#include "switchtower/worker.pb.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/value_codec.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {
namespace {

namespace pb = ::switchtower::worker;
using worker_wire::CauseFromProto;
using worker_wire::CheckBox;
using worker_wire::DevicesFromProto;
using worker_wire::FromProto;
using worker_wire::PayloadCopy;
using Decoded = absl::StatusOr<WorkerCommand>;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("worker command: " + what); }

template <typename Repeated>
std::vector<ArrayId> Arrays(const Repeated& in) {
  std::vector<ArrayId> ids;
  ids.reserve(in.size());
  for (uint64_t id : in) ids.push_back(ArrayId{id});
  return ids;
}

Decoded Decode(const pb::SetPeers& in) {
  SetPeers out;
  for (const pb::SetPeers::Peer& peer : in.peers()) {
    out.peers.push_back(WorkerEndpoint{
        WorkerId{peer.worker()}, peer.host_id(), {peer.addresses().begin(), peer.addresses().end()}, peer.secret()});
  }
  return out;
}

// What a few bytes may make this side hold.
constexpr int64_t kGangRanksMax = 1 << 20;

Decoded Decode(const pb::DefineGang& in) {
  DefineGang out{GangId{in.gang()}, {}};
  for (const pb::DefineGang::Run& run : in.runs()) {
    if (run.first_ordinal() < 0 || run.count() < 1 ||
        run.count() > kGangRanksMax - static_cast<int64_t>(out.ranks.size()) ||
        run.first_ordinal() > INT32_MAX - run.count()) {
      return Bad("a gang with ranks that can't be");
    }
    for (int32_t i = 0; i < run.count(); ++i) {
      out.ranks.push_back({WorkerId{run.worker()}, run.first_ordinal() + i});
    }
  }
  if (out.ranks.empty()) return Bad("a gang without ranks");
  return out;
}

Decoded Decode(const pb::LoadProgram& in, std::string_view payload) {
  return LoadProgram{ProgramId{in.program()}, in.name(),        PayloadCopy(payload),
                     in.num_parameters(),     in.num_results(), in.calls_client()};
}

Decoded Decode(const pb::Launch& in) {
  Launch out;
  out.id = FromProto(in.id());
  out.session = SessionId{in.session()};
  out.program = ProgramId{in.program()};
  out.gang = GangId{in.gang()};
  out.arguments = Arrays(in.arguments());
  out.results = Arrays(in.results());
  out.donated.assign(in.donated().begin(), in.donated().end());
  for (uint32_t position : out.donated) {
    if (position >= out.arguments.size()) return Bad("a donated parameter that the launch doesn't have");
  }
  out.client_launch_id = in.client_launch_id();
  out.awaited = in.awaited();
  return out;
}

Decoded Decode(const pb::CancelLaunch& in) {
  CancelLaunch out{FromProto(in.launch()), {}};
  RETURN_IF_ERROR(CauseFromProto(in.cause(), &out.cause));
  return out;
}

absl::Status StridesFrom(const pb::ByteStrides& in, std::optional<std::vector<int64_t>>* out) {
  if (in.strides_size() > kMaxRank) return Bad("too many strides");
  out->emplace(in.strides().begin(), in.strides().end());
  return absl::OkStatus();
}

Decoded Decode(const pb::PutArray& in) {
  PutArray out;
  out.array = ArrayKey{SessionId{in.session()}, ArrayId{in.array()}};
  RETURN_IF_ERROR(DevicesFromProto(in.devices(), &out.devices));
  ASSIGN_OR_RETURN(out.shard_shape, FromProto(in.shard_shape()));
  if (in.has_byte_strides()) {
    RETURN_IF_ERROR(StridesFrom(in.byte_strides(), &out.byte_strides));
    if (static_cast<int>(out.byte_strides->size()) != out.shard_shape.rank()) {
      return Bad("as many strides as dimensions are needed");
    }
  }
  ASSIGN_OR_RETURN(out.layout, FromProto(in.layout(), out.shard_shape.rank()));
  out.memory_kind = in.memory_kind();
  out.stream = StreamId{in.stream()};
  out.stream_bytes = in.stream_bytes();
  return out;
}

Decoded Decode(const pb::StreamChunk& in, std::string_view payload) {
  StreamChunk out{StreamId{in.stream()}, PayloadCopy(payload), in.last(), in.uses(), {}};
  RETURN_IF_ERROR(FromProto(in.error(), &out.error));
  return out;
}

Decoded Decode(const pb::BindArrays& in) {
  BindArrays out{SessionId{in.session()}, {}};
  for (const pb::BindArrays::Binding& binding : in.bindings()) {
    ASSIGN_OR_RETURN(PhysicalDevice device, FromProto(binding.device()));
    out.bindings.push_back({ArrayId{binding.from()}, ArrayId{binding.to()}, device});
  }
  return out;
}

Decoded Decode(const pb::PutError& in) {
  PutError out{ArrayKey{SessionId{in.session()}, ArrayId{in.array()}}, {}, {}};
  RETURN_IF_ERROR(DevicesFromProto(in.devices(), &out.devices));
  RETURN_IF_ERROR(CauseFromProto(in.error(), &out.error));
  return out;
}

absl::Status CheckPiece(const TransferArray& transfer, const TransferArray::Piece& piece) {
  if (piece.source_box.start.size() != piece.source_box.size.size() ||
      piece.source_box.size != piece.destination_box.size) {
    return Bad("a piece of different sizes at its two ends");
  }
  for (const TransferArray::Destination& destination : transfer.destinations) {
    if (destination.device == piece.destination) return CheckBox(piece.destination_box, destination.shard_shape);
  }
  return Bad("a piece for a device that is no destination");
}

Decoded Decode(const pb::TransferArray& in) {
  TransferArray out;
  out.id = FromProto(in.id());
  out.session = SessionId{in.session()};
  out.from = ArrayId{in.from()};
  out.to = ArrayId{in.to()};
  if (in.destinations().empty()) return Bad("a transfer to nowhere");
  for (const pb::TransferArray::Destination& destination : in.destinations()) {
    ASSIGN_OR_RETURN(PhysicalDevice device, FromProto(destination.device()));
    ASSIGN_OR_RETURN(Shape shape, FromProto(destination.shard_shape()));
    if (!out.destinations.empty() && shape.rank() != out.destinations[0].shard_shape.rank()) {
      return Bad("destination shards of different ranks");
    }
    out.destinations.push_back({device, std::move(shape)});
  }
  ASSIGN_OR_RETURN(out.layout, FromProto(in.layout(), out.destinations[0].shard_shape.rank()));
  out.memory_kind = in.memory_kind();
  for (const pb::TransferArray::Piece& piece : in.pieces()) {
    ASSIGN_OR_RETURN(PhysicalDevice source, FromProto(piece.source()));
    ASSIGN_OR_RETURN(PhysicalDevice destination, FromProto(piece.destination()));
    out.pieces.push_back({source, destination, FromProto(piece.source_box()), FromProto(piece.destination_box())});
    RETURN_IF_ERROR(CheckPiece(out, out.pieces.back()));
  }
  return out;
}

Decoded Decode(const pb::ReadShard& in) {
  ReadShard out;
  out.request = RequestId{in.request()};
  out.array = ArrayKey{SessionId{in.session()}, ArrayId{in.array()}};
  ASSIGN_OR_RETURN(out.device, FromProto(in.device()));
  if (in.has_byte_strides()) RETURN_IF_ERROR(StridesFrom(in.byte_strides(), &out.byte_strides));
  return out;
}

}  // namespace

absl::StatusOr<WorkerCommand> DecodeCommand(std::string_view body) {
  pb::WorkerCommand in;
  std::string_view payload;
  RETURN_IF_ERROR(worker_wire::CutBody(body, &in, &payload));
  switch (in.command_case()) {
    case pb::WorkerCommand::kSetPeers:
      return Decode(in.set_peers());
    case pb::WorkerCommand::kDefineGang:
      return Decode(in.define_gang());
    case pb::WorkerCommand::kDropGang:
      return DropGang{GangId{in.drop_gang().gang()}};
    case pb::WorkerCommand::kLoadProgram:
      return Decode(in.load_program(), payload);
    case pb::WorkerCommand::kUnloadProgram:
      return UnloadProgram{ProgramId{in.unload_program().program()}};
    case pb::WorkerCommand::kLaunch:
      return Decode(in.launch());
    case pb::WorkerCommand::kCancelLaunch:
      return Decode(in.cancel_launch());
    case pb::WorkerCommand::kPutArray:
      return Decode(in.put_array());
    case pb::WorkerCommand::kStreamChunk:
      return Decode(in.stream_chunk(), payload);
    case pb::WorkerCommand::kBindArrays:
      return Decode(in.bind_arrays());
    case pb::WorkerCommand::kPutError:
      return Decode(in.put_error());
    case pb::WorkerCommand::kTransferArray:
      return Decode(in.transfer_array());
    case pb::WorkerCommand::kReadShard:
      return Decode(in.read_shard());
    case pb::WorkerCommand::kAwaitReady:
      return AwaitReady{RequestId{in.await_ready().request()}, SessionId{in.await_ready().session()},
                        Arrays(in.await_ready().arrays())};
    case pb::WorkerCommand::kDeleteArrays:
      return DeleteArrays{SessionId{in.delete_arrays().session()}, Arrays(in.delete_arrays().arrays())};
    case pb::WorkerCommand::kEndSession:
      return EndSession{SessionId{in.end_session().session()}};
    case pb::WorkerCommand::kAskMemory:
      return AskMemory{RequestId{in.ask_memory().request()}};
    case pb::WorkerCommand::kReportTimes:
      return ReportTimes{in.report_times().on()};
    case pb::WorkerCommand::kAskActivity:
      return AskActivity{RequestId{in.ask_activity().request()}};
    case pb::WorkerCommand::kReturnHostCall: {
      ReturnHostCall out{RequestId{in.return_host_call().request()}, {}, PayloadCopy(payload)};
      RETURN_IF_ERROR(FromProto(in.return_host_call().status(), &out.status));
      return out;
    }
    case pb::WorkerCommand::COMMAND_NOT_SET:
      break;
  }
  return Bad("of no known kind");
}

}  // namespace switchtower
