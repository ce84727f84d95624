#include "hlo/participants.h"

#include <gtest/gtest.h>

#include "hlo/module_builder.h"

namespace switchtower {
namespace {

xla::HloInstructionProto AllReduce() {
  xla::HloInstructionProto instruction;
  instruction.set_opcode("all-reduce");
  instruction.set_channel_id(1);
  instruction.set_use_global_device_ids(true);
  return instruction;
}

void AddAxis(xla::MeshProto* mesh, const char* name, int64_t size) {
  auto* axis = mesh->add_axes();
  axis->set_name(name);
  axis->set_size(size);
}

xla::HloInstructionProto MeshAllReduce(const std::vector<int64_t>& sizes) {
  xla::HloInstructionProto instruction = AllReduce();
  for (int64_t size : sizes) AddAxis(instruction.mutable_mesh_axes_replica_group_list()->mutable_mesh(), "a", size);
  return instruction;
}

void AddSubAxis(xla::HloInstructionProto& instruction, int64_t axis, int64_t pre_size, int64_t size) {
  auto* ref = instruction.mutable_mesh_axes_replica_group_list()->add_axes();
  ref->set_mesh_axis_index(axis);
  if (pre_size == 0) return;
  ref->mutable_sub_axis_info()->set_pre_size(pre_size);
  ref->mutable_sub_axis_info()->set_size(size);
}

TEST(ParticipantsTest, NoListIsOneGroupOfAll) { EXPECT_EQ(*ParticipantGroups(AllReduce(), 3), (Groups{{0, 1, 2}})); }

TEST(ParticipantsTest, ListedGroupsKeepTheirOrder) {
  xla::HloInstructionProto instruction = AllReduce();
  for (auto ids : {std::vector<int64_t>{3, 0}, std::vector<int64_t>{1, 2}}) {
    auto* group = instruction.mutable_collective_device_list()->add_replica_groups();
    for (int64_t id : ids) group->add_replica_ids(id);
  }
  EXPECT_EQ(*ParticipantGroups(instruction, 4), (Groups{{3, 0}, {1, 2}}));
  EXPECT_TRUE(CheckEveryRankTakesPart(*ParticipantGroups(instruction, 4), 4).ok());
  EXPECT_FALSE(CheckEveryRankTakesPart(*ParticipantGroups(instruction, 8), 8).ok());
  EXPECT_FALSE(ParticipantGroups(instruction, 3).ok()) << "id 3 of 3";
}

TEST(ParticipantsTest, OldFieldWorks) {
  xla::HloInstructionProto instruction = AllReduce();
  instruction.add_replica_groups()->add_replica_ids(1);
  instruction.add_replica_groups()->add_replica_ids(0);
  EXPECT_EQ(*ParticipantGroups(instruction, 2), (Groups{{1}, {0}}));
}

TEST(ParticipantsTest, IotaWithTranspose) {
  xla::HloInstructionProto instruction = AllReduce();
  auto* iota = instruction.mutable_iota_collective_device_list();
  iota->set_num_replica_groups(4);
  iota->set_num_devices_per_group(2);
  for (int64_t dim : {2, 2, 2}) iota->add_iota_reshape_dims(dim);
  for (int32_t p : {0, 2, 1}) iota->add_iota_transpose_perm(p);
  // XLA prints it as [4,2]<=[2,2,2]T(0,2,1).
  EXPECT_EQ(*ParticipantGroups(instruction, 8), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
}

TEST(ParticipantsTest, HostileIotaIsRefused) {
  for (auto dims : {std::vector<int64_t>{1LL << 40, 1LL << 40}, std::vector<int64_t>{0}, std::vector<int64_t>{-1, -8},
                    std::vector<int64_t>(1000, 1)}) {
    xla::HloInstructionProto instruction = AllReduce();
    auto* iota = instruction.mutable_iota_collective_device_list();
    iota->set_num_replica_groups(1);
    iota->set_num_devices_per_group(1);
    for (size_t i = 0; i < dims.size(); ++i) {
      iota->add_iota_reshape_dims(dims[i]);
      iota->add_iota_transpose_perm(static_cast<int32_t>(i));
    }
    EXPECT_EQ(ParticipantGroups(instruction, 8).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ParticipantsTest, MeshAxesGroupDevicesThatDifferAlongThem) {
  xla::HloInstructionProto instruction = MeshAllReduce({2, 4});
  AddSubAxis(instruction, 0, 0, 0);
  EXPECT_EQ(*ParticipantGroups(instruction, 8), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  AddSubAxis(instruction, 1, 0, 0);
  EXPECT_EQ(*ParticipantGroups(instruction, 8), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

TEST(ParticipantsTest, MeshAxesInOtherOrderChangeTheGroupOrder) {
  xla::HloInstructionProto instruction = MeshAllReduce({2, 2});
  AddSubAxis(instruction, 1, 0, 0);
  AddSubAxis(instruction, 0, 0, 0);
  EXPECT_EQ(*ParticipantGroups(instruction, 4), (Groups{{0, 2, 1, 3}}));
}

TEST(ParticipantsTest, PartsOfAnAxis) {
  // An axis of 8 read as [2, 2, 2].
  xla::HloInstructionProto major = MeshAllReduce({8});
  AddSubAxis(major, 0, 1, 2);
  EXPECT_EQ(*ParticipantGroups(major, 8), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  xla::HloInstructionProto middle = MeshAllReduce({8});
  AddSubAxis(middle, 0, 2, 2);
  EXPECT_EQ(*ParticipantGroups(middle, 8), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  // Minor part first, then the major one.
  xla::HloInstructionProto two = MeshAllReduce({8});
  AddSubAxis(two, 0, 4, 2);
  AddSubAxis(two, 0, 1, 2);
  EXPECT_EQ(*ParticipantGroups(two, 8), (Groups{{0, 4, 1, 5}, {2, 6, 3, 7}}));
}

TEST(ParticipantsTest, WrongPartsAreRefused) {
  for (auto [pre, size] : {std::pair<int64_t, int64_t>{3, 2}, {1, 16}, {-1, 2}, {1LL << 62, 8}, {2, 3}}) {
    xla::HloInstructionProto instruction = MeshAllReduce({8});
    AddSubAxis(instruction, 0, pre, size);
    EXPECT_FALSE(ParticipantGroups(instruction, 8).ok()) << pre << ":" << size;
  }
  xla::HloInstructionProto twice = MeshAllReduce({8});
  AddSubAxis(twice, 0, 1, 4);
  AddSubAxis(twice, 0, 2, 2);
  EXPECT_FALSE(ParticipantGroups(twice, 8).ok());
}

TEST(ParticipantsTest, MeshWithDeviceIdsOrTransform) {
  xla::HloInstructionProto listed = MeshAllReduce({2, 2});
  for (int64_t id : {3, 2, 1, 0}) listed.mutable_mesh_axes_replica_group_list()->mutable_mesh()->add_device_ids(id);
  AddSubAxis(listed, 1, 0, 0);
  EXPECT_EQ(*ParticipantGroups(listed, 4), (Groups{{3, 2}, {1, 0}}));

  xla::HloInstructionProto transformed = MeshAllReduce({2, 2});
  auto* iota = transformed.mutable_mesh_axes_replica_group_list()->mutable_mesh()->mutable_iota_transform();
  for (int64_t dim : {2, 2}) iota->add_reshape_dims(dim);
  for (int64_t p : {1, 0}) iota->add_transpose_perm(p);
  AddSubAxis(transformed, 1, 0, 0);
  EXPECT_EQ(*ParticipantGroups(transformed, 4), (Groups{{0, 2}, {1, 3}}));
}

TEST(ParticipantsTest, AnIdTwiceIsRefused) {
  xla::HloInstructionProto instruction = AllReduce();
  auto* group = instruction.mutable_collective_device_list()->add_replica_groups();
  group->add_replica_ids(0);
  group->add_replica_ids(0);
  EXPECT_FALSE(ParticipantGroups(instruction, 2).ok());
}

TEST(ParticipantsTest, WithoutChannelIdsAreReplicasAndEachRankIsAlone) {
  xla::HloInstructionProto instruction;
  instruction.set_opcode("all-reduce");
  EXPECT_EQ(*ParticipantGroups(instruction, 3), (Groups{{0}, {1}, {2}}));
  instruction.set_channel_id(1);  // replicas and all of their partitions
  EXPECT_EQ(*ParticipantGroups(instruction, 3), (Groups{{0, 1, 2}}));
}

TEST(ParticipantsTest, PermutePairs) {
  xla::HloInstructionProto instruction;
  instruction.set_opcode("collective-permute");
  instruction.set_channel_id(1);
  auto* pair = instruction.add_source_target_pairs();
  pair->set_source(2);
  pair->set_target(0);
  EXPECT_EQ(*PermutePairs(instruction, 3), (std::vector<std::pair<int64_t, int64_t>>{{2, 0}}));
  EXPECT_FALSE(PermutePairs(instruction, 2).ok());
  *instruction.add_source_target_pairs() = *pair;
  EXPECT_FALSE(PermutePairs(instruction, 3).ok()) << "one target twice";
}

}  // namespace
}  // namespace switchtower
