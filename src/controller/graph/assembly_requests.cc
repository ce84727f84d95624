// Requests that regroup shards and leave them where they are.
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "controller/graph/copy_requests.h"
#include "controller/graph/shard_moves.h"

namespace switchtower {
namespace {

// The array that shard `position` is by itself.
absl::StatusOr<ArrayInfoPtr> ShardAlone(SessionContext& session, const ArrayInfo& info, int position) {
  ArraySpec spec;
  ASSIGN_OR_RETURN(spec.shape, ShardShape(info.spec.sharding, info.spec.shape, position));
  spec.sharding.kind = Sharding::Kind::kSingleDevice;
  spec.sharding.devices = {info.spec.sharding.devices[position]};
  spec.sharding.memory_kind = info.spec.sharding.memory_kind;
  spec.layout = info.spec.layout;
  return std::make_shared<const ArrayInfo>(
      ArrayInfo{std::move(spec), session.devices.Single(info.devices->places[position])});
}

absl::Status TakeShard(SessionContext& session, ArrayId array, int position, ArrayId result, CopySemantics semantics,
                       LossLedger::Stamp stamp, uint64_t user_context) {
  LogicalArray* known = session.arrays.Find(array);
  const ArrayInfoPtr source = known == nullptr ? nullptr : known->info;
  if (source == nullptr) return session.arrays.Live(array).status();
  ASSIGN_OR_RETURN(ArrayInfoPtr alone, ShardAlone(session, *source, position));
  RETURN_IF_ERROR(session.arrays.LiveOn(array, alone->devices->seats).status());
  ASSIGN_OR_RETURN(std::vector<ShardMove> moves, MovesOfAll(array, result, *alone));
  RETURN_IF_ERROR(session.arrays.Bind(result, std::move(alone), stamp, user_context));
  SubmitMoves(session, moves, semantics == CopySemantics::kAlwaysCopy, stamp, user_context);
  return absl::OkStatus();
}

// A shard that a part of an assembly brings.
struct Piece {
  ArrayId array;
  Place place;
  Shape shape;
};

absl::StatusOr<std::vector<Piece>> PiecesOf(SessionContext& session, absl::Span<const ArrayId> parts) {
  std::vector<Piece> pieces;
  for (ArrayId part : parts) {
    ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(part));
    const ArrayInfo& info = *array->info;
    for (int i = 0; i < info.spec.sharding.num_shards(); ++i) {
      ASSIGN_OR_RETURN(Shape shape, ShardShape(info.spec.sharding, info.spec.shape, i));
      pieces.push_back(Piece{part, info.devices->places[i], std::move(shape)});
    }
  }
  return pieces;
}

}  // namespace

absl::Status AssembleArray(SessionContext& session, ArrayId result, const ArraySpec& spec,
                           absl::Span<const ArrayId> parts, CopySemantics semantics, uint64_t user_context) {
  RETURN_IF_ERROR(session.arrays.CheckFree(result));
  const auto make = [&]() -> absl::Status {
    const LossLedger::Stamp stamp = session.now();
    ASSIGN_OR_RETURN(std::vector<Piece> pieces, PiecesOf(session, parts));
    ArraySpec whole = spec;
    if (whole.shape.dtype == DType::kInvalid && !pieces.empty()) whole.shape.dtype = pieces[0].shape.dtype;
    ASSIGN_OR_RETURN(ArrayInfoPtr info, session.devices.Describe(whole));
    const Sharding& sharding = info->spec.sharding;
    if (static_cast<int>(pieces.size()) != sharding.num_shards()) {
      return absl::InvalidArgumentError(
          fmt::format("{} shards can't be assembled to an array of {}", pieces.size(), sharding.num_shards()));
    }
    std::vector<ShardMove> moves;
    for (int i = 0; i < sharding.num_shards(); ++i) {
      ASSIGN_OR_RETURN(Shape shape, ShardShape(sharding, info->spec.shape, i));
      if (pieces[i].place != info->devices->places[i] || pieces[i].shape != shape) {
        return absl::InvalidArgumentError(
            fmt::format("shard {} of the assembled array is {} on device {}; the part given is {}{}", i,
                        shape.ToString(), sharding.devices[i].value, pieces[i].shape.ToString(),
                        pieces[i].place != info->devices->places[i] ? " on another device" : ""));
      }
      moves.push_back(ShardMove{pieces[i].array, result, pieces[i].place, std::move(shape), LayoutOf(info->spec),
                                sharding.memory_kind});
    }
    RETURN_IF_ERROR(session.arrays.Bind(result, std::move(info), stamp, user_context));
    SubmitMoves(session, moves, semantics == CopySemantics::kAlwaysCopy, stamp, user_context);
    if (semantics == CopySemantics::kDonateInput) DeleteDonated(session, parts);
    return absl::OkStatus();
  };
  absl::Status status = make();
  return status.ok() ? status : session.BindErrors({&result, 1}, std::move(status), user_context);
}

absl::Status DisassembleArray(SessionContext& session, ArrayId array, absl::Span<const ArrayId> results,
                              CopySemantics semantics, uint64_t user_context) {
  absl::Status usable = session.CheckResults(results);
  if (const LogicalArray* known = session.arrays.Find(array); usable.ok() && known != nullptr &&
                                                              known->info != nullptr &&
                                                              known->info->devices->places.size() != results.size()) {
    usable = absl::InvalidArgumentError(
        fmt::format("{} results for an array of {} shards", results.size(), known->info->devices->places.size()));
  }
  if (!usable.ok()) return session.BindErrors(results, std::move(usable), user_context);
  const LossLedger::Stamp stamp = session.now();
  absl::Status first;
  for (size_t i = 0; i < results.size(); ++i) {
    absl::Status status = TakeShard(session, array, static_cast<int>(i), results[i], semantics, stamp, user_context);
    if (status.ok()) continue;
    status = session.BindErrors({&results[i], 1}, std::move(status), user_context);
    if (first.ok()) first = std::move(status);
  }
  if (semantics == CopySemantics::kDonateInput && first.ok()) DeleteDonated(session, {&array, 1});
  return first;
}

absl::Status FirstShard(SessionContext& session, ArrayId array, ArrayId result, CopySemantics semantics,
                        uint64_t user_context) {
  RETURN_IF_ERROR(session.arrays.CheckFree(result));
  absl::Status status;
  const LogicalArray* known = session.arrays.Find(array);
  if (known != nullptr && known->info != nullptr && known->info->spec.sharding.num_shards() > 1 &&
      !known->info->spec.sharding.IsFullyReplicated()) {
    status =
        absl::InvalidArgumentError(fmt::format("array {} isn't fully replicated", known->info->spec.shape.ToString()));
  } else {
    status = TakeShard(session, array, 0, result, semantics, session.now(), user_context);
  }
  if (!status.ok()) return session.BindErrors({&result, 1}, std::move(status), user_context);
  if (semantics == CopySemantics::kDonateInput) DeleteDonated(session, {&array, 1});
  return absl::OkStatus();
}

absl::Status RemapArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArraySpec> inputs,
                         absl::Span<const ArrayId> results, absl::Span<const ArraySpec> outputs,
                         absl::Span<const ShardMapping> mappings, CopySemantics semantics, uint64_t user_context) {
  const auto make = [&]() -> absl::Status {
    RETURN_IF_ERROR(session.CheckResults(results));
    if (results.size() != outputs.size() || arrays.size() != inputs.size()) {
      return absl::InvalidArgumentError("a remap names as many arrays as it describes");
    }
    const LossLedger::Stamp stamp = session.now();
    std::vector<ArrayInfoPtr> from, to;
    for (size_t i = 0; i < arrays.size(); ++i) {
      ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(arrays[i]));
      if (array->info->spec.shape != inputs[i].shape) {
        return absl::InvalidArgumentError(fmt::format("input {} of the remap is {}, the plan says {}", i,
                                                      array->info->spec.shape.ToString(), inputs[i].shape.ToString()));
      }
      from.push_back(array->info);
    }
    std::vector<std::vector<bool>> covered;
    for (const ArraySpec& output : outputs) {
      ASSIGN_OR_RETURN(ArrayInfoPtr info, session.devices.Describe(output));
      covered.emplace_back(info->spec.sharding.num_shards(), false);
      to.push_back(std::move(info));
    }
    std::vector<ShardMove> moves;
    for (const ShardMapping& mapping : mappings) {
      if (mapping.in < 0 || mapping.in >= static_cast<int>(from.size()) || mapping.out < 0 ||
          mapping.out >= static_cast<int>(to.size())) {
        return absl::InvalidArgumentError("a mapping names an array that the remap doesn't have");
      }
      const ArrayInfo& source = *from[mapping.in];
      const ArrayInfo& target = *to[mapping.out];
      if (mapping.from_shard < 0 || mapping.from_shard >= source.spec.sharding.num_shards() || mapping.to_shard < 0 ||
          mapping.to_shard >= target.spec.sharding.num_shards() || covered[mapping.out][mapping.to_shard]) {
        return absl::InvalidArgumentError(
            fmt::format("mapping of shard {} to shard {} is out of range or fills a shard twice", mapping.from_shard,
                        mapping.to_shard));
      }
      covered[mapping.out][mapping.to_shard] = true;
      ASSIGN_OR_RETURN(Shape have, ShardShape(source.spec.sharding, source.spec.shape, mapping.from_shard));
      ASSIGN_OR_RETURN(Shape want, ShardShape(target.spec.sharding, target.spec.shape, mapping.to_shard));
      const Place& place = target.devices->places[mapping.to_shard];
      if (have != want || source.devices->places[mapping.from_shard] != place) {
        return absl::InvalidArgumentError(fmt::format(
            "a remap can't turn shard {} {} into {}{}", mapping.from_shard, have.ToString(), want.ToString(),
            source.devices->places[mapping.from_shard] != place ? " on another device" : ""));
      }
      moves.push_back(ShardMove{arrays[mapping.in], results[mapping.out], place, std::move(want), LayoutOf(target.spec),
                                target.spec.sharding.memory_kind});
    }
    for (const std::vector<bool>& shards : covered) {
      for (bool filled : shards) {
        if (!filled) return absl::InvalidArgumentError("the remap leaves a shard of its result unfilled");
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      RETURN_IF_ERROR(session.arrays.Bind(results[i], to[i], stamp, user_context));
    }
    SubmitMoves(session, moves, semantics == CopySemantics::kAlwaysCopy, stamp, user_context);
    if (semantics == CopySemantics::kDonateInput) DeleteDonated(session, arrays);
    return absl::OkStatus();
  };
  absl::Status status = make();
  return status.ok() ? status : session.BindErrors(results, std::move(status), user_context);
}

}  // namespace switchtower
