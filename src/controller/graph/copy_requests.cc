// Copies and reshards: the array stays what it is, its shards go elsewhere.
#include "controller/graph/copy_requests.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "controller/graph/shard_moves.h"

namespace switchtower {
namespace {

// Makes `to` (described by `target`) from `from`.
absl::Status Move(SessionContext& session, ArrayId from, ArrayId to, ArrayInfoPtr target, CopySemantics semantics,
                  LossLedger::Stamp stamp, uint64_t user_context) {
  ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(from));
  const ArrayInfoPtr source = array->info;
  RETURN_IF_ERROR(session.arrays.losses().Check(target->devices->seats, stamp));
  if (SamePlacement(session.devices, *source, *target)) {
    ASSIGN_OR_RETURN(std::vector<ShardMove> moves, MovesOfAll(from, to, *target));
    RETURN_IF_ERROR(session.arrays.Bind(to, std::move(target), stamp, user_context));
    SubmitMoves(session, moves, semantics == CopySemantics::kAlwaysCopy, stamp, user_context);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(TransferOp transfer, PlanTransfer(session.devices, from, *source, to, *target));
  RETURN_IF_ERROR(session.arrays.Bind(to, std::move(target), stamp, user_context));
  session.Submit(std::move(transfer), stamp, user_context);
  return absl::OkStatus();
}

// Runs `target(i)` and Move for each pair; binds what failed.
template <typename Target>
absl::Status MoveEach(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                      CopySemantics semantics, uint64_t user_context, Target target) {
  absl::Status usable =
      arrays.size() == results.size()
          ? session.CheckResults(results)
          : absl::InvalidArgumentError(fmt::format("{} results for {} arrays", results.size(), arrays.size()));
  if (!usable.ok()) return session.BindErrors(results, std::move(usable), user_context);
  const LossLedger::Stamp stamp = session.now();
  absl::Status first;
  std::vector<ArrayId> donated;
  for (size_t i = 0; i < arrays.size(); ++i) {
    absl::StatusOr<ArrayInfoPtr> info = target(i);
    absl::Status status = !info.ok()
                              ? info.status()
                              : Move(session, arrays[i], results[i], *std::move(info), semantics, stamp, user_context);
    if (status.ok()) {
      donated.push_back(arrays[i]);
    } else {
      status = session.BindErrors({&results[i], 1}, std::move(status), user_context);
      if (first.ok()) first = std::move(status);
    }
  }
  if (semantics == CopySemantics::kDonateInput) DeleteDonated(session, donated);
  return first;
}

}  // namespace

absl::Status CopyArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                        absl::Span<const DeviceId> devices, const std::optional<std::string>& memory_kind,
                        CopySemantics semantics, uint64_t user_context) {
  return MoveEach(session, arrays, results, semantics, user_context, [&](size_t i) -> absl::StatusOr<ArrayInfoPtr> {
    ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(arrays[i]));
    ArraySpec spec = array->info->spec;
    if (!devices.empty()) {
      if (devices.size() != spec.sharding.devices.size()) {
        return absl::InvalidArgumentError(
            fmt::format("an array on {} devices can't be copied to {}", spec.sharding.devices.size(), devices.size()));
      }
      spec.sharding.devices.assign(devices.begin(), devices.end());
    }
    if (memory_kind.has_value()) spec.sharding.memory_kind = *memory_kind;
    spec.sharding.wire.clear();
    return session.devices.Describe(spec);
  });
}

absl::Status ReshardArrays(SessionContext& session, absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                           absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) {
  if (outputs.size() != arrays.size()) {
    return session.BindErrors(
        results,
        absl::InvalidArgumentError(fmt::format("{} descriptions for {} arrays", outputs.size(), arrays.size())),
        user_context);
  }
  return MoveEach(session, arrays, results, semantics, user_context, [&](size_t i) -> absl::StatusOr<ArrayInfoPtr> {
    ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.Live(arrays[i]));
    if (array->info->spec.shape != outputs[i].shape) {
      return absl::InvalidArgumentError(fmt::format("a reshard can't turn {} into {}",
                                                    array->info->spec.shape.ToString(), outputs[i].shape.ToString()));
    }
    return session.devices.Describe(outputs[i]);
  });
}

}  // namespace switchtower
