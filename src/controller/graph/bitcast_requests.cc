// The same bytes seen as another type. Workers have no such operation on their buffers: the bytes take the way
// over the controller, shard by shard. It is rare, and right for every engine.
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "controller/graph/copy_requests.h"
#include "controller/graph/pipe_buffer.h"
#include "controller/graph/shard_moves.h"

namespace switchtower {
namespace {

bool WholeBytes(DType dtype) { return BitWidth(dtype) >= 8; }

absl::Status Bitcast(SessionContext& session, ArrayId from, ArrayId to, const ArraySpec& output,
                     CopySemantics semantics, uint64_t user_context) {
  const LossLedger::Stamp stamp = session.now();
  ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(from));
  const ArrayInfoPtr source = array->info;
  ASSIGN_OR_RETURN(ArrayInfoPtr target, session.devices.Describe(output));
  if (source->spec.shape == target->spec.shape && SamePlacement(session.devices, *source, *target)) {
    ASSIGN_OR_RETURN(std::vector<ShardMove> moves, MovesOfAll(from, to, *target));
    RETURN_IF_ERROR(session.arrays.Bind(to, std::move(target), stamp, user_context));
    SubmitMoves(session, moves, semantics == CopySemantics::kAlwaysCopy, stamp, user_context);
    return absl::OkStatus();
  }
  if (source->devices != target->devices) {
    return absl::InvalidArgumentError("a bitcast leaves each shard on its device");
  }
  if (!WholeBytes(source->spec.shape.dtype) || !WholeBytes(target->spec.shape.dtype)) {
    return absl::UnimplementedError(fmt::format("bitcast of {} to {}: only types of whole bytes are supported",
                                                source->spec.shape.ToString(), target->spec.shape.ToString()));
  }
  PutOp put;
  put.array = to;
  put.devices = target->devices;
  put.layout = LayoutOf(target->spec);
  put.memory_kind = target->spec.sharding.memory_kind;
  std::vector<ReadOp> reads;
  for (int i = 0; i < target->spec.sharding.num_shards(); ++i) {
    ASSIGN_OR_RETURN(Shape have, ShardShape(source->spec.sharding, source->spec.shape, i));
    ASSIGN_OR_RETURN(Shape want, ShardShape(target->spec.sharding, target->spec.shape, i));
    if (have.host_bytes() != want.host_bytes()) {
      return absl::InvalidArgumentError(
          fmt::format("shard {} of {} bytes can't be seen as {} bytes", i, have.host_bytes(), want.host_bytes()));
    }
    auto pipe = std::make_shared<PipeBuffer>();
    const Place& place = source->devices->places[i];
    reads.push_back(ReadOp{from, place, std::nullopt,
                           [pipe](HostBuffer::Chunk chunk) { pipe->Write(std::move(chunk)); },
                           [pipe](absl::Status status) { pipe->End(std::move(status)); }});
    const int64_t bytes = want.host_bytes();
    put.shards.push_back(PutOp::Shard{{place}, std::move(want), std::nullopt, std::move(pipe), bytes});
  }
  RETURN_IF_ERROR(session.arrays.Bind(to, std::move(target), stamp, user_context));
  for (ReadOp& read : reads) session.Submit(std::move(read), stamp, user_context);
  session.Submit(std::move(put), stamp, user_context);
  return absl::OkStatus();
}

}  // namespace

absl::Status BitcastArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                           absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) {
  absl::Status usable = arrays.size() == results.size() && arrays.size() == outputs.size()
                            ? session.CheckResults(results)
                            : absl::InvalidArgumentError("a bitcast names a result and a type for each array");
  if (!usable.ok()) return session.BindErrors(results, std::move(usable), user_context);
  absl::Status first;
  std::vector<ArrayId> donated;
  for (size_t i = 0; i < arrays.size(); ++i) {
    absl::Status status = Bitcast(session, arrays[i], results[i], outputs[i], semantics, user_context);
    if (status.ok()) {
      donated.push_back(arrays[i]);
      continue;
    }
    status = session.BindErrors({&results[i], 1}, std::move(status), user_context);
    if (first.ok()) first = std::move(status);
  }
  if (semantics == CopySemantics::kDonateInput) DeleteDonated(session, donated);
  return first;
}

}  // namespace switchtower
