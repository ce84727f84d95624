// New arrays out of shards of others: bound to the same buffers where nothing moves, transferred otherwise.
//
// Place:    controller/graph; the common part of copies, reshards, remaps and (dis)assembly.
// Threads:  the session's strand.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "controller/graph/session_context.h"

namespace switchtower {

// A whole shard of `from` becomes a shard of `to` on the same device and in the same kind of memory.
struct ShardMove {
  ArrayId from;
  ArrayId to;
  Place place;
  Shape shape;
  Layout layout;
  std::string memory_kind;
};

// `copy`: the new array must not share the old one's buffers. Sends one command for all moves, or one
// transfer for each pair of arrays.
void SubmitMoves(SessionContext& session, const std::vector<ShardMove>& moves, bool copy, LossLedger::Stamp stamp,
                 uint64_t user_context);

// `to` is the same array as `from` in another sharding or memory: any bytes may go anywhere.
absl::StatusOr<TransferOp> PlanTransfer(const DeviceTable& devices, ArrayId from, const ArrayInfo& from_info,
                                        ArrayId to, const ArrayInfo& to_info);

// Whether each device holds the same part of the array in the same memory in both.
bool SamePlacement(const DeviceTable& devices, const ArrayInfo& a, const ArrayInfo& b);

// Moves of every shard, for arrays of the same placement.
absl::StatusOr<std::vector<ShardMove>> MovesOfAll(ArrayId from, ArrayId to, const ArrayInfo& info);

Layout LayoutOf(const ArraySpec& spec);

// Deletes arrays whose request gave them away, after all work that was sent with them.
void DeleteDonated(SessionContext& session, absl::Span<const ArrayId> arrays);

}  // namespace switchtower
