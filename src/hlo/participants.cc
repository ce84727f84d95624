#include "hlo/participants.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hlo/device_order.h"

namespace switchtower {
namespace {

absl::Status Bad(std::string what) {
  return absl::InvalidArgumentError(absl::StrCat("the participants are wrong: ", what));
}

enum class IdMeaning {
  kPartition,              // ids are ranks
  kReplicaOfOnePartition,  // ids are replicas, and a rank talks to the other replicas of its own partition
  kReplicaAllPartitions,   // ids are replicas, and each stands for all of its partitions
};

// XLA's rule. all-reduce, all-gather and reduce-scatter say by a flag whether ids are flat device numbers; the
// others don't have the flag, and their ids are partitions as soon as there is a channel.
absl::StatusOr<IdMeaning> MeaningOf(const xla::HloInstructionProto& instruction) {
  const std::string& opcode = instruction.opcode();
  const bool has_flag = opcode == "all-reduce" || opcode == "all-gather" || opcode == "reduce-scatter";
  if (instruction.channel_id() <= 0) {
    if (has_flag && instruction.use_global_device_ids()) return Bad("global device ids without a channel");
    return IdMeaning::kReplicaOfOnePartition;
  }
  if (!has_flag || instruction.use_global_device_ids()) return IdMeaning::kPartition;
  return IdMeaning::kReplicaAllPartitions;
}

absl::StatusOr<Groups> Listed(const google::protobuf::RepeatedPtrField<xla::ReplicaGroup>& lists, int64_t limit) {
  int64_t ids = 0;
  Groups groups;
  for (const xla::ReplicaGroup& list : lists) {
    ids += list.replica_ids_size();
    if (ids > limit) return Bad(absl::StrCat("more than ", limit, " ids"));
    if (list.replica_ids_size() == 0) return Bad("an empty group");
    groups.emplace_back(list.replica_ids().begin(), list.replica_ids().end());
  }
  return groups;
}

Groups CutIntoGroups(const std::vector<int64_t>& ids, int64_t size) {
  Groups groups;
  for (auto it = ids.begin(); it != ids.end(); it += size) groups.emplace_back(it, it + size);
  return groups;
}

absl::StatusOr<Groups> FromIota(const xla::IotaReplicaGroupListProto& list, int64_t limit) {
  const std::vector<int64_t> perm(list.iota_transpose_perm().begin(), list.iota_transpose_perm().end());
  ASSIGN_OR_RETURN(const std::vector<int64_t> ids, TransposedIota(list.iota_reshape_dims(), perm, limit));
  const int64_t count = static_cast<int64_t>(ids.size());
  const int64_t size = list.num_devices_per_group();
  if (size < 1 || count % size != 0 || count / size != list.num_replica_groups()) {
    return Bad("groups that don't divide the devices");
  }
  return CutIntoGroups(ids, size);
}

absl::StatusOr<Groups> FromMesh(const xla::MeshAxesReplicaGroupListProto& list, int64_t limit) {
  const std::vector<xla::AxisRefProto> axes(list.axes().begin(), list.axes().end());
  ASSIGN_OR_RETURN(const MeshOrder order, OrderMesh(list.mesh(), axes, NamedAxes::kLast, limit));
  return CutIntoGroups(order.devices, order.named_size);
}

absl::StatusOr<Groups> WrittenOut(const xla::HloInstructionProto& instruction, int64_t limit) {
  if (instruction.replica_groups_size() > 0) return Listed(instruction.replica_groups(), limit);
  if (instruction.has_iota_collective_device_list()) {
    return FromIota(instruction.iota_collective_device_list(), limit);
  }
  if (instruction.has_mesh_axes_replica_group_list()) {
    return FromMesh(instruction.mesh_axes_replica_group_list(), limit);
  }
  return Listed(instruction.collective_device_list().replica_groups(), limit);
}

absl::Status CheckIds(const Groups& groups, int64_t limit) {
  std::vector<bool> seen(limit, false);
  for (const auto& group : groups) {
    for (int64_t id : group) {
      if (id < 0 || id >= limit) return Bad(absl::StrCat("id ", id, " of ", limit));
      if (seen[id]) return Bad(absl::StrCat("id ", id, " twice"));
      seen[id] = true;
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> AllRanks(int64_t count) {
  std::vector<int64_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

absl::StatusOr<Groups> ParticipantGroups(const xla::HloInstructionProto& instruction, int num_partitions) {
  ASSIGN_OR_RETURN(const IdMeaning meaning, MeaningOf(instruction));
  const int64_t limit = meaning == IdMeaning::kPartition ? num_partitions : 1;
  ASSIGN_OR_RETURN(Groups groups, WrittenOut(instruction, limit));
  RETURN_IF_ERROR(CheckIds(groups, limit));
  switch (meaning) {
    case IdMeaning::kPartition:
      if (groups.empty()) groups.push_back(AllRanks(num_partitions));
      return groups;
    case IdMeaning::kReplicaAllPartitions:
      return Groups{AllRanks(num_partitions)};
    case IdMeaning::kReplicaOfOnePartition:
      // With one replica every rank is alone.
      return CutIntoGroups(AllRanks(num_partitions), 1);
  }
  return Bad("unknown meaning of ids");
}

absl::Status CheckEveryRankTakesPart(const Groups& groups, int num_partitions) {
  size_t ranks = 0;
  for (const auto& group : groups) ranks += group.size();
  if (ranks == static_cast<size_t>(num_partitions)) return absl::OkStatus();
  return Bad(absl::StrCat("only ", ranks, " of ", num_partitions, " partitions are in a group"));
}

absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> PermutePairs(const xla::HloInstructionProto& instruction,
                                                                      int num_partitions) {
  ASSIGN_OR_RETURN(const IdMeaning meaning, MeaningOf(instruction));
  const int64_t limit = meaning == IdMeaning::kPartition ? num_partitions : 1;
  std::vector<bool> is_source(limit, false), is_target(limit, false);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const xla::SourceTarget& pair : instruction.source_target_pairs()) {
    const int64_t s = pair.source(), t = pair.target();
    if (s < 0 || s >= limit || t < 0 || t >= limit) return Bad(absl::StrCat("pair ", s, " to ", t, " of ", limit));
    if (is_source[s]) return Bad(absl::StrCat("source ", s, " twice"));
    if (is_target[t]) return Bad(absl::StrCat("target ", t, " twice"));
    is_source[s] = is_target[t] = true;
    pairs.emplace_back(s, t);
  }
  if (meaning != IdMeaning::kReplicaOfOnePartition || pairs.empty()) return pairs;
  // Replica 0 to replica 0, in each partition.
  pairs.clear();
  for (int64_t rank = 0; rank < num_partitions; ++rank) pairs.emplace_back(rank, rank);
  return pairs;
}

}  // namespace switchtower
