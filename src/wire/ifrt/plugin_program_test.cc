#include "wire/ifrt/plugin_program.h"

#include <gtest/gtest.h>

namespace switchtower {
namespace {

const DeviceSet kKnown = {DeviceId{10}, DeviceId{11}};
// An OpSharding that cuts dimension 0 in two: type OTHER, tile dimensions {2, 1}, tile devices {0, 1}.
const char kRows[] = "CAMaAgIBIgIAAQ==";

std::string Program(const std::string& json) { return "__serialized_plugin_program " + json; }

std::string Placed(const std::string& devices, const std::string& sharding = kRows) {
  return R"({"devices": {"device_ids": [)" + devices + R"(]}, "xla_hlo_sharding": ")" + sharding +
         R"(", "memory_kind": "device"})";
}

std::string Reshard(const std::string& from, const std::string& to) {
  return Program(R"({"reshardRequest": {"donateInput": true, "inSharding": [)" + from + R"(], "outSharding": [)" + to +
                 "]}}");
}

absl::Status StatusOf(const std::string& data) { return ParsePluginProgram(data, kKnown).status(); }

TEST(PluginProgramTest, Reshard) {
  auto program = ParsePluginProgram(Reshard(Placed("10, 11"), Placed("11,10")), kKnown);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(program->donate);
  ASSERT_EQ(program->to.size(), 1u);
  EXPECT_EQ(program->to[0].devices, (std::vector<DeviceId>{DeviceId{11}, DeviceId{10}}));
  EXPECT_EQ(program->to[0].memory_kind, "device");
  auto sharding = ToSharding(program->to[0], Shape{DType::kF32, {4, 3}});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->tile_dims, (std::vector<int64_t>{2, 1}));
  EXPECT_FALSE(ToSharding(program->to[0], Shape{DType::kF32, {}}).ok());
}

TEST(PluginProgramTest, OtherKindsAreNamed) {
  const absl::Status status = StatusOf(Program(R"({"profileRequest": {"traceLocation": "gs://x"}})"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("\"profileRequest\""), absl::string_view::npos);
}

TEST(PluginProgramTest, WhatIsNoProgram) {
  const std::string good = Placed("10,11");
  for (const std::string& data :
       {std::string("{}"), Program(""), Program("[]"), Program("{}"), Program("{\"a\": {}, \"b\": {}}"),
        Program(R"({"reshardRequest": 7})"), Program(std::string(100000, '[')), Program("{\"\xff\": 1}"),
        Reshard("", ""), Reshard(good, ""), Reshard(good, good + "," + good), Reshard(good, Placed("")),
        Reshard(good, Placed("12")), Reshard(good, Placed("10,10")), Reshard(good, Placed("10,11", "/w=="))}) {
    EXPECT_EQ(StatusOf(data).code(), absl::StatusCode::kInvalidArgument) << data.substr(0, 200);
  }
  EXPECT_NE(StatusOf(Program("nothing")).message().find("Bad PluginProgram"), absl::string_view::npos);
  const std::string whole = Reshard(good, good);
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(StatusOf(whole.substr(0, size)).ok()) << size;
}

}  // namespace
}  // namespace switchtower
