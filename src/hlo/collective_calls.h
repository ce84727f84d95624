// The contract between lowered programs and the custom-call handlers of the workers.
//
// Lowering (lower_collectives.h) replaces every operation that depends on the set of participants by a typed
// XLA FFI custom call. The handlers see dense buffers in physical order, so everything that depends on a layout
// is computed here once and carried as an attribute. A call carries exactly the attributes listed for its target.
// All attributes are `i64` or `array<i64>`; an array may be empty.
//
// Attributes of every target but kPartitionId:
//   op_id          i64   unique in the program, from 1; part of the match key (launch, op_id, iteration, group)
//   groups         i64[] ranks of all groups one after the other; the order inside a group is the group order
//   group_offsets  i64[] group g is groups[group_offsets[g] .. group_offsets[g + 1]); size is number of groups + 1
// A rank is in at most one group. It is in exactly one, except for kCollectiveBroadcast.
// kCollectivePermute carries sources and targets in place of the two group attributes.
//
// Geometry, one entry for each operand: `outer` blocks lie one after the other; `chunk_bytes` is what one rank
// holds of (or gets from) one block. With n ranks in the group, the chunk of group position p in block b starts at
// (b * n + p) * chunk_bytes of the whole array and at b * chunk_bytes of the shard.
//
// Targets. Buffer k of the results belongs to operand k; element types of the two are equal.
//   kAllReduce            kind. k operands of any shapes (element types may differ), results alike. Operands and
//                         results have the same physical order: reduce element by element.
//   kReduceScatter        kind, outer[], chunk_bytes[]. Operand: whole; result: shard (own group position).
//   kAllGather            outer[], chunk_bytes[]. Operand: shard; result: whole.
//   kAllToAll             k operands, k = group size, all of one shape. Operand i goes to group position i; result
//                         j comes from group position j.
//   kAllToAllArray        outer[1], chunk_bytes[1]. One operand and one result of equal shape, both "whole": the
//                         chunk at position p goes to group position p and lands at the sender's position.
//   kCollectivePermute    sources[], targets[]. Rank targets[i] gets what rank sources[i] has; a rank that is
//                         no target gets zero bytes. A rank occurs at most once in each list; it may be in both.
//   kCollectiveBroadcast  The first rank of each group sends its operands to the others. A rank outside every
//                         group gets zero bytes.
//   kRaggedAllToAll       row_bytes. Operands: input, output, input_offsets, send_sizes, output_offsets, recv_sizes;
//                         the last four have n * m elements (s32 or s64, all alike), m slices for each peer. One
//                         result with output's shape. It starts as a copy of `output`; for peer p and slice u, with
//                         i = p * m + u: rows [input_offsets[i], +send_sizes[i]) of input go to peer p's result from
//                         row output_offsets[i] on (an index into the PEER's result). Rows are row_bytes long.
//                         All values come from the program at run time: check them against the row counts.
//   kPartitionId          no attributes, no operands; result u32[]: the rank that executes.
#pragma once

#include <cstdint>

namespace switchtower {

// No program from outside may name a target with this prefix.
inline constexpr char kCollectiveTargetPrefix[] = "switchtower.";

namespace collective_target {
inline constexpr char kAllReduce[] = "switchtower.all_reduce";
inline constexpr char kReduceScatter[] = "switchtower.reduce_scatter";
inline constexpr char kAllGather[] = "switchtower.all_gather";
inline constexpr char kAllToAll[] = "switchtower.all_to_all";
inline constexpr char kAllToAllArray[] = "switchtower.all_to_all_array";
inline constexpr char kCollectivePermute[] = "switchtower.collective_permute";
inline constexpr char kCollectiveBroadcast[] = "switchtower.collective_broadcast";
inline constexpr char kRaggedAllToAll[] = "switchtower.ragged_all_to_all";
inline constexpr char kPartitionId[] = "switchtower.partition_id";
}  // namespace collective_target

namespace collective_attribute {
inline constexpr char kOpId[] = "op_id";
inline constexpr char kGroups[] = "groups";
inline constexpr char kGroupOffsets[] = "group_offsets";
inline constexpr char kKind[] = "kind";
inline constexpr char kOuter[] = "outer";
inline constexpr char kChunkBytes[] = "chunk_bytes";
inline constexpr char kSources[] = "sources";
inline constexpr char kTargets[] = "targets";
inline constexpr char kRowBytes[] = "row_bytes";
}  // namespace collective_attribute

// Value of `kind`. On pred only kAnd, kOr and kXor occur; on complex types only kSum and kProduct; on floating
// point types no bitwise kind. Element types: pred, s8..s64, u8..u64, f16, bf16, f32, f64, c64, c128.
// kMin and kMax on floating point types: if one of the two is NaN, so is the result.
enum class ReductionKind : int64_t {
  kSum = 0,
  kProduct = 1,
  kMin = 2,
  kMax = 3,
  kAnd = 4,
  kOr = 5,
  kXor = 6,
};

}  // namespace switchtower
