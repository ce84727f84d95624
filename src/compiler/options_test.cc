#include "compiler/options.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "compiler/testing_programs.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

xla::CompileOptionsProto Parse(const std::string& bytes) {
  xla::CompileOptionsProto options;
  EXPECT_TRUE(options.ParseFromString(bytes));
  return options;
}

google::protobuf::UnknownFieldSet& Flags(xla::CompileOptionsProto& options) {
  auto& debug = *options.mutable_executable_build_options()->mutable_debug_options();
  return *debug.GetReflection()->MutableUnknownFields(&debug);
}

TEST(OptionsTest, ReadsPartitionsAndDevices) {
  const auto client = ParseClientOptions(TestOptions(3, 10).SerializeAsString());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(client->num_partitions, 3);
  EXPECT_THAT(client->device_ids, ElementsAre(10, 11, 12));
}

TEST(OptionsTest, DevicesDontChangeTheContent) {
  const auto a = ParseClientOptions(TestOptions(3, 0).SerializeAsString());
  const auto b = ParseClientOptions(TestOptions(3, 10).SerializeAsString());
  const auto c = ParseClientOptions(TestOptions(4, 0).SerializeAsString());
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(CanonicalBytes(*a), CanonicalBytes(*b));
  EXPECT_NE(CanonicalBytes(*a), CanonicalBytes(*c));
}

// Protocol buffers don't say in which order a map is sent, and the client's order differs from process to process.
TEST(OptionsTest, TheOrderOfAMapDoesntChangeTheContent) {
  constexpr int kMap = 357, kList = 258;
  const auto content = [](int field, std::vector<std::string> entries) {
    xla::CompileOptionsProto options = TestOptions(2);
    for (const std::string& entry : entries) Flags(options).AddLengthDelimited(field, entry);
    const auto client = ParseClientOptions(options.SerializeAsString());
    EXPECT_TRUE(client.ok()) << client.status();
    return CanonicalBytes(*client);
  };
  EXPECT_EQ(content(kMap, {"a", "b", "c"}), content(kMap, {"c", "a", "b"}));
  EXPECT_NE(content(kMap, {"a", "b", "c"}), content(kMap, {"a", "b"}));
  EXPECT_NE(content(kList, {"a", "b"}), content(kList, {"b", "a"}));
}

TEST(OptionsTest, CaptureRunsOnDevicesFromZero) {
  const auto client = ParseClientOptions(TestOptions(2, 10).SerializeAsString());
  ASSERT_TRUE(client.ok());
  const xla::CompileOptionsProto capture = Parse(CaptureOptions(*client));
  const auto& build = capture.executable_build_options();
  EXPECT_EQ(build.num_partitions(), 2);
  EXPECT_EQ(build.device_assignment().computation_devices(1).replica_device_ids(0), 1);
  EXPECT_TRUE(build.use_spmd_partitioning());
  EXPECT_FALSE(capture.compile_portable_executable());
}

TEST(OptionsTest, TheBackendGetsOnePortablePartition) {
  xla::CompileOptionsProto sent = TestOptions(2);
  sent.add_argument_layouts()->set_element_type(xla::F32);
  const auto client = ParseClientOptions(sent.SerializeAsString());
  ASSERT_TRUE(client.ok());
  xla::ProgramShapeProto shapes;
  shapes.mutable_result()->mutable_layout()->set_element_size_in_bits(4);
  const xla::CompileOptionsProto backend = Parse(BackendOptions(*client, shapes));
  const auto& build = backend.executable_build_options();
  EXPECT_TRUE(backend.compile_portable_executable());
  EXPECT_TRUE(build.run_backend_only());
  EXPECT_EQ(build.num_partitions(), 1);
  EXPECT_FALSE(build.has_device_assignment());
  EXPECT_FALSE(build.use_spmd_partitioning());
  // The module's own layouts, not the client's.
  EXPECT_EQ(backend.argument_layouts_size(), 0);
  EXPECT_EQ(build.result_layout().layout().element_size_in_bits(), 4);
}

TEST(OptionsTest, DropsFlagsThatTouchFilesAndKeepsTheRest) {
  xla::CompileOptionsProto sent = TestOptions(1);
  auto& flags = Flags(sent);
  flags.AddLengthDelimited(109, "/etc");           // xla_dump_to
  flags.AddVarint(112, 1);                         // xla_dump_hlo_as_text
  flags.AddLengthDelimited(500, "-load=evil.so");  // xla_backend_extra_options
  flags.AddLengthDelimited(9999, "unknown");
  flags.AddVarint(31, 2);                 // xla_backend_optimization_level
  flags.AddLengthDelimited(30, "dce");    // xla_disable_hlo_passes
  flags.AddLengthDelimited(333, "AVX2");  // xla_cpu_max_isa
  const auto client = ParseClientOptions(sent.SerializeAsString());
  ASSERT_TRUE(client.ok());
  xla::CompileOptionsProto kept = client->options;
  ASSERT_EQ(Flags(kept).field_count(), 2);
  EXPECT_EQ(Flags(kept).field(0).number(), 31);
  EXPECT_EQ(Flags(kept).field(1).number(), 333);
}

TEST(OptionsTest, RefusesOverridesThatNameFilesOrPasses) {
  for (const char* name :
       {"xla_dump_to", "xla_gpu_ptx_file", "xla_gpu_cuda_data_dir", "xla_backend_extra_options",
        "xla_disable_hlo_passes", "xla_enable_hlo_passes_only", "xla_run_hlo_passes_starting_from"}) {
    xla::CompileOptionsProto sent = TestOptions(1);
    (*sent.mutable_env_option_overrides())[name].set_string_field("x");
    const auto client = ParseClientOptions(sent.SerializeAsString());
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(client.status().message()), HasSubstr(name));
  }
  xla::CompileOptionsProto sent = TestOptions(1);
  (*sent.mutable_env_option_overrides())["xla_dump_max_hlo_modules"].set_int_field(200);
  EXPECT_TRUE(ParseClientOptions(sent.SerializeAsString()).ok());
}

TEST(OptionsTest, RefusesWhatItCantDo) {
  xla::CompileOptionsProto replicas = TestOptions(1);
  replicas.mutable_executable_build_options()->set_num_replicas(2);
  EXPECT_EQ(ParseClientOptions(replicas.SerializeAsString()).status().code(), absl::StatusCode::kUnimplemented);
  const auto largest = ParseClientOptions(TestOptions(2048, 0).SerializeAsString());
  ASSERT_TRUE(largest.ok());
  EXPECT_TRUE(CheckPartitions(*largest).ok());
  const auto large = ParseClientOptions(TestOptions(2049, 0).SerializeAsString());
  ASSERT_TRUE(large.ok());  // the controller isn't the limit
  EXPECT_EQ(CheckPartitions(*large).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(CheckPartitions(*large).message()), HasSubstr("2048"));
  EXPECT_FALSE(ParseClientOptions("\xff\xff").ok());
}

TEST(OptionsTest, RefusesAssignmentsThatDontFit) {
  xla::CompileOptionsProto twice = TestOptions(2);
  twice.mutable_executable_build_options()
      ->mutable_device_assignment()
      ->mutable_computation_devices(1)
      ->set_replica_device_ids(0, 0);
  EXPECT_FALSE(ParseClientOptions(twice.SerializeAsString()).ok());
  xla::CompileOptionsProto few = TestOptions(2);
  few.mutable_executable_build_options()->mutable_device_assignment()->mutable_computation_devices()->RemoveLast();
  EXPECT_FALSE(ParseClientOptions(few.SerializeAsString()).ok());
  xla::CompileOptionsProto none = TestOptions(2);
  none.mutable_executable_build_options()->clear_device_assignment();
  EXPECT_FALSE(ParseClientOptions(none.SerializeAsString()).ok());
  xla::CompileOptionsProto one = TestOptions(1);
  one.mutable_executable_build_options()->clear_device_assignment();
  EXPECT_TRUE(ParseClientOptions(one.SerializeAsString()).ok());
}

}  // namespace
}  // namespace switchtower
