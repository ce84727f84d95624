// Who takes part in a collective: the groups of ranks that an HLO instruction describes, written out.
//
// HLO has three current encodings (listed, iota, mesh axes) and an old one; and what the ids in them mean depends
// on channel and id flags. Programs here have one replica, so all of it comes down to groups of partitions.
//
// Place:    hlo; used by lower_collectives.
// Threads:  pure functions.
// Errors:   InvalidArgument: ids outside [0, N), an id twice, an empty group, a description of more than N ids.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/service/hlo.pb.h"

namespace switchtower {

// The order inside a group is the group order.
using Groups = std::vector<std::vector<int64_t>>;

// Groups of ranks. No list at all means one group of all ranks. Not every rank need be in a group.
absl::StatusOr<Groups> ParticipantGroups(const xla::HloInstructionProto& instruction, int num_partitions);

// OK if each of the N ranks is in a group.
absl::Status CheckEveryRankTakesPart(const Groups& groups, int num_partitions);

// (source, target) ranks of a collective-permute, each at most once as a source and once as a target.
absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> PermutePairs(const xla::HloInstructionProto& instruction,
                                                                      int num_partitions);

}  // namespace switchtower
