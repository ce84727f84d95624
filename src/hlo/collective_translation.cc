#include "hlo/collective_translation.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/attribute_text.h"
#include "hlo/collective_calls.h"
#include "hlo/element_type.h"
#include "hlo/geometry.h"
#include "hlo/participants.h"
#include "hlo/reduction.h"

namespace switchtower {
namespace {

namespace attribute = collective_attribute;
using Shapes = std::vector<const xla::ShapeProto*>;

// What all forms share, read once.
struct Collective {
  const CollectiveContext& context;
  const xla::HloInstructionProto& instruction;
  int64_t op_id;
  Shapes operands;
  Shapes results;
};

absl::Status Bad(const char* what) { return absl::InvalidArgumentError(what); }

Collective Read(const CollectiveContext& context, const xla::HloInstructionProto& instruction, int64_t op_id) {
  Collective collective{context, instruction, op_id, {}, {}};
  for (const xla::HloInstructionProto* operand : context.index.Operands(context.computation, instruction)) {
    collective.operands.push_back(&operand->shape());
  }
  if (instruction.shape().element_type() == xla::TUPLE) {
    for (const xla::ShapeProto& leaf : instruction.shape().tuple_shapes()) collective.results.push_back(&leaf);
  } else {
    collective.results.push_back(&instruction.shape());
  }
  return collective;
}

absl::Status CheckCounts(const Collective& c) {
  if (c.operands.empty() || c.operands.size() != c.results.size()) return Bad("operands and results differ in number");
  return absl::OkStatus();
}

absl::Status CheckAllSame(const Collective& c) {
  RETURN_IF_ERROR(CheckCounts(c));
  for (size_t i = 0; i < c.operands.size(); ++i) RETURN_IF_ERROR(CheckSameArray(*c.operands[i], *c.results[i]));
  return absl::OkStatus();
}

AttributeText WithGroups(const Collective& c, const Groups& groups) {
  std::vector<int64_t> flat, offsets = {0};
  for (const auto& group : groups) {
    flat.insert(flat.end(), group.begin(), group.end());
    offsets.push_back(static_cast<int64_t>(flat.size()));
  }
  AttributeText text;
  text.Add(attribute::kOpId, c.op_id).Add(attribute::kGroups, flat).Add(attribute::kGroupOffsets, offsets);
  return text;
}

absl::StatusOr<Groups> AllRanksInGroups(const Collective& c) {
  ASSIGN_OR_RETURN(Groups groups, ParticipantGroups(c.instruction, c.context.num_partitions));
  RETURN_IF_ERROR(CheckEveryRankTakesPart(groups, c.context.num_partitions));
  return groups;
}

// Shapes depend on the group size, so it must be one number.
absl::StatusOr<int64_t> OneGroupSize(const Groups& groups) {
  for (const auto& group : groups) {
    if (group.size() != groups[0].size()) return Bad("groups of different sizes");
  }
  return static_cast<int64_t>(groups[0].size());
}

absl::StatusOr<int64_t> OnlyDimension(const Collective& c) {
  if (c.instruction.dimensions_size() != 1) return Bad("it must have one dimension");
  return c.instruction.dimensions(0);
}

absl::StatusOr<ReductionKind> KindFor(const Collective& c) {
  ASSIGN_OR_RETURN(const ReductionKind named, ReductionOf(c.context.index, c.instruction));
  std::optional<ReductionKind> kind;
  for (const xla::ShapeProto* operand : c.operands) {
    ASSIGN_OR_RETURN(const ReductionKind on_type, ReductionOn(named, operand->element_type()));
    if (kind.has_value() && *kind != on_type) {
      return absl::UnimplementedError("one reduction over truth values and numbers");
    }
    kind = on_type;
  }
  return *kind;
}

// OK if `whole` is `part` taken `count` times along `dimension`, in the same order in memory.
absl::Status CheckWholeAndPart(const xla::ShapeProto& whole, const xla::ShapeProto& part, int64_t dimension,
                               int64_t count) {
  RETURN_IF_ERROR(CheckSameOrder(whole, part));
  if (dimension < 0 || dimension >= whole.dimensions_size()) return Bad("the dimension is out of range");
  for (int i = 0; i < whole.dimensions_size(); ++i) {
    const int64_t times = i == dimension ? count : 1;
    if (whole.dimensions(i) % times != 0 || whole.dimensions(i) / times != part.dimensions(i)) {
      return Bad("operand and result don't fit the group size");
    }
  }
  return absl::OkStatus();
}

struct Geometries {
  std::vector<int64_t> outer, chunk_bytes;
};

absl::StatusOr<Geometries> GeometriesOf(const Shapes& wholes, const Shapes& parts, int64_t dimension, int64_t count) {
  Geometries all;
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(CheckWholeAndPart(*wholes[i], *parts[i], dimension, count));
    ASSIGN_OR_RETURN(const BlockGeometry geometry, GeometryOfPart(*parts[i], dimension));
    all.outer.push_back(geometry.outer);
    all.chunk_bytes.push_back(geometry.chunk_bytes);
  }
  return all;
}

CollectiveCall Call(const char* target, const AttributeText& text) { return {target, text.Text()}; }

absl::StatusOr<CollectiveCall> AllReduce(const Collective& c) {
  RETURN_IF_ERROR(CheckAllSame(c));
  ASSIGN_OR_RETURN(const Groups groups, AllRanksInGroups(c));
  ASSIGN_OR_RETURN(const ReductionKind kind, KindFor(c));
  AttributeText text = WithGroups(c, groups);
  text.Add(attribute::kKind, static_cast<int64_t>(kind));
  return Call(collective_target::kAllReduce, text);
}

absl::StatusOr<CollectiveCall> AllGather(const Collective& c) {
  RETURN_IF_ERROR(CheckCounts(c));
  ASSIGN_OR_RETURN(const Groups groups, AllRanksInGroups(c));
  ASSIGN_OR_RETURN(const int64_t size, OneGroupSize(groups));
  ASSIGN_OR_RETURN(const int64_t dimension, OnlyDimension(c));
  ASSIGN_OR_RETURN(const Geometries geometries, GeometriesOf(c.results, c.operands, dimension, size));
  AttributeText text = WithGroups(c, groups);
  text.Add(attribute::kOuter, geometries.outer).Add(attribute::kChunkBytes, geometries.chunk_bytes);
  return Call(collective_target::kAllGather, text);
}

absl::StatusOr<CollectiveCall> ReduceScatter(const Collective& c) {
  RETURN_IF_ERROR(CheckCounts(c));
  ASSIGN_OR_RETURN(const Groups groups, AllRanksInGroups(c));
  ASSIGN_OR_RETURN(const int64_t size, OneGroupSize(groups));
  ASSIGN_OR_RETURN(const int64_t dimension, OnlyDimension(c));
  ASSIGN_OR_RETURN(const ReductionKind kind, KindFor(c));
  ASSIGN_OR_RETURN(const Geometries geometries, GeometriesOf(c.operands, c.results, dimension, size));
  AttributeText text = WithGroups(c, groups);
  text.Add(attribute::kKind, static_cast<int64_t>(kind));
  text.Add(attribute::kOuter, geometries.outer).Add(attribute::kChunkBytes, geometries.chunk_bytes);
  return Call(collective_target::kReduceScatter, text);
}

// An array is cut along the dimension into as many parts as the group has members.
absl::StatusOr<CollectiveCall> AllToAllArray(const Collective& c, const Groups& groups, int64_t size) {
  if (c.operands.size() != 1) return Bad("all-to-all along a dimension has one operand");
  ASSIGN_OR_RETURN(const int64_t dimension, OnlyDimension(c));
  xla::ShapeProto part = *c.operands[0];
  if (dimension < 0 || dimension >= part.dimensions_size() || part.dimensions(dimension) % size != 0) {
    return Bad("the dimension can't be cut into equal parts");
  }
  part.set_dimensions(dimension, part.dimensions(dimension) / size);
  ASSIGN_OR_RETURN(const Geometries geometries, GeometriesOf(c.operands, {&part}, dimension, size));
  AttributeText text = WithGroups(c, groups);
  text.Add(attribute::kOuter, geometries.outer).Add(attribute::kChunkBytes, geometries.chunk_bytes);
  return Call(collective_target::kAllToAllArray, text);
}

absl::StatusOr<CollectiveCall> AllToAll(const Collective& c) {
  RETURN_IF_ERROR(CheckAllSame(c));
  ASSIGN_OR_RETURN(const Groups groups, AllRanksInGroups(c));
  ASSIGN_OR_RETURN(const int64_t size, OneGroupSize(groups));
  if (c.instruction.dimensions_size() > 0) return AllToAllArray(c, groups, size);
  if (static_cast<int64_t>(c.operands.size()) != size) return Bad("all-to-all needs an operand for each member");
  for (const xla::ShapeProto* operand : c.operands) RETURN_IF_ERROR(CheckSameArray(*operand, *c.operands[0]));
  return Call(collective_target::kAllToAll, WithGroups(c, groups));
}

absl::StatusOr<CollectiveCall> CollectivePermute(const Collective& c) {
  if (c.instruction.dynamic_slice_sizes_size() > 0) {
    return absl::UnimplementedError("collective-permute into slices isn't supported");
  }
  RETURN_IF_ERROR(CheckAllSame(c));
  ASSIGN_OR_RETURN(const auto pairs, PermutePairs(c.instruction, c.context.num_partitions));
  std::vector<int64_t> sources, targets;
  for (const auto& [source, target] : pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  AttributeText text;
  text.Add(attribute::kOpId, c.op_id).Add(attribute::kSources, sources).Add(attribute::kTargets, targets);
  return Call(collective_target::kCollectivePermute, text);
}

absl::StatusOr<CollectiveCall> CollectiveBroadcast(const Collective& c) {
  RETURN_IF_ERROR(CheckAllSame(c));
  ASSIGN_OR_RETURN(const Groups groups, ParticipantGroups(c.instruction, c.context.num_partitions));
  return Call(collective_target::kCollectiveBroadcast, WithGroups(c, groups));
}

// Offsets and sizes: a list of whole numbers, the same number of them for each member.
absl::Status CheckSliceLists(const Collective& c, int64_t group_size) {
  for (size_t i = 2; i < 6; ++i) {
    const xla::ShapeProto& list = *c.operands[i];
    if (list.element_type() != xla::S32 && list.element_type() != xla::S64) return Bad("offsets must be s32 or s64");
    RETURN_IF_ERROR(CheckSameArray(list, *c.operands[2]));
    if (list.dimensions_size() != 1 || list.dimensions(0) % group_size != 0) {
      return Bad("offsets must be a list with equally many for each member");
    }
  }
  return absl::OkStatus();
}

// Rows are dense only if their dimension varies slowest.
absl::StatusOr<int64_t> RowBytes(const xla::ShapeProto& array) {
  if (array.dimensions_size() == 0) return Bad("ragged-all-to-all needs rows");
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(array));
  if (layout.minor_to_major.back() != 0) {
    return absl::UnimplementedError("ragged-all-to-all of rows that aren't contiguous");
  }
  xla::ShapeProto row = array;
  row.set_dimensions(0, 1);
  ASSIGN_OR_RETURN(const BlockGeometry geometry, GeometryOfPart(row, 0));
  return geometry.chunk_bytes;
}

absl::StatusOr<CollectiveCall> RaggedAllToAll(const Collective& c) {
  if (c.operands.size() != 6 || c.results.size() != 1) return Bad("ragged-all-to-all has six operands and one result");
  ASSIGN_OR_RETURN(const Groups groups, AllRanksInGroups(c));
  ASSIGN_OR_RETURN(const int64_t size, OneGroupSize(groups));
  const xla::ShapeProto& input = *c.operands[0];
  const xla::ShapeProto& output = *c.operands[1];
  RETURN_IF_ERROR(CheckSameArray(output, *c.results[0]));
  RETURN_IF_ERROR(CheckSameOrder(input, output));
  RETURN_IF_ERROR(CheckSliceLists(c, size));
  for (int i = 1; i < input.dimensions_size(); ++i) {
    if (input.dimensions(i) != output.dimensions(i)) return Bad("input and output have different rows");
  }
  ASSIGN_OR_RETURN(const int64_t row_bytes, RowBytes(output));
  AttributeText text = WithGroups(c, groups);
  text.Add(attribute::kRowBytes, row_bytes);
  return Call(collective_target::kRaggedAllToAll, text);
}

absl::StatusOr<CollectiveCall> PartitionId(const Collective& c) {
  if (!c.operands.empty() || c.instruction.shape().element_type() != xla::U32 ||
      c.instruction.shape().dimensions_size() != 0) {
    return Bad("partition-id is a u32 scalar without operands");
  }
  return Call(collective_target::kPartitionId, AttributeText());
}

}  // namespace

absl::StatusOr<CollectiveCall> TranslateCollective(const CollectiveContext& context,
                                                   const xla::HloInstructionProto& instruction, int64_t op_id) {
  const Collective collective = Read(context, instruction, op_id);
  const std::string& opcode = instruction.opcode();
  if (opcode == "all-reduce") return AllReduce(collective);
  if (opcode == "all-gather") return AllGather(collective);
  if (opcode == "reduce-scatter") return ReduceScatter(collective);
  if (opcode == "all-to-all") return AllToAll(collective);
  if (opcode == "collective-permute") return CollectivePermute(collective);
  if (opcode == "collective-broadcast") return CollectiveBroadcast(collective);
  if (opcode == "ragged-all-to-all") return RaggedAllToAll(collective);
  if (opcode == "partition-id") return PartitionId(collective);
  return absl::UnimplementedError(absl::StrCat(opcode, " isn't a collective"));
}

}  // namespace switchtower
