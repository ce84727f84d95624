// Programs and executions, at each protocol version.
#include <gtest/gtest.h>

#include "frontdoor/test_client.h"
#include "xla/python/pjrt_ifrt/xla_compiler.pb.h"

namespace switchtower {
namespace {

const Shape kVector{DType::kS32, {4}};
const std::string kBytes = "0123456789abcdef";

ProgramValue Value(bool sharded) {
  ProgramValue value;
  value.shape = kVector;
  value.shard_shape = kVector;
  value.layout = Layout::Default(1);
  value.memory_kind = "device";
  xla::OpSharding sharding;
  sharding.set_type(xla::OpSharding::REPLICATED);
  sharding.add_tile_assignment_dimensions(1);
  if (sharded) value.op_sharding = sharding.SerializeAsString();
  return value;
}

CompiledProgram Identity(int partitions) {
  CompiledProgram program;
  program.info.name = "jit_identity";
  program.info.fingerprint = "f00d";
  program.info.num_partitions = partitions;
  program.info.parameters = {Value(partitions > 1)};
  program.info.results = {Value(partitions > 1), Value(partitions > 1)};
  program.info.donatable_parameters = {0};
  program.info.memory.generated_code = 123;
  program.info.costs = {{"flops", 8.0}};
  program.hlo_text = "HloModule jit_identity";
  return program;
}

IfrtRequest CompileRequest(const std::string& program) {
  IfrtRequest request;
  auto* compile = request.mutable_compile_request();
  compile->mutable_program()->set_type_name("xla::ifrt::XlaProgram");
  compile->mutable_program()->set_data(program);
  xla::ifrt::XlaCompileOptionsProto options;
  options.set_compile_options("\x18\x01");
  compile->mutable_compile_options()->set_type_name("xla::ifrt::XlaCompileOptions");
  compile->mutable_compile_options()->set_data(options.SerializeAsString());
  return request;
}

struct Programs {
  explicit Programs(int protocol = kProtocolMax, int partitions = 1) : client(TestClient::Create(protocol)) {
    client->fake->AddProgram("identity", Identity(partitions));
    compiled = client->Call(CompileRequest("identity")).compile_response();
    executable = compiled.loaded_executable_handle();
    array = client->Put(kVector, kBytes, {0});
  }
  IfrtRequest Execute(std::vector<uint64_t> results, uint64_t status_handle = 0, bool fill_status = false) {
    IfrtRequest request;
    auto* execute = request.mutable_loaded_executable_execute_request();
    execute->set_loaded_executable_handle(executable);
    execute->add_args_handles(array);
    for (uint64_t result : results) execute->add_result_array_handle(result);
    execute->set_result_status_handle(status_handle);
    execute->mutable_execute_options()->set_fill_status(fill_status);
    execute->mutable_execute_options()->set_launch_id(-3);
    return request;
  }
  std::shared_ptr<TestClient> client;
  xla::ifrt::proxy::CompileResponse compiled;
  uint64_t executable = 0;
  uint64_t array = 0;
};

class ProgramsByProtocol : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, ProgramsByProtocol, testing::Range(kProtocolMin, kProtocolMax + 1));

TEST_P(ProgramsByProtocol, CompileThenFirstAndLaterExecutions) {
  Programs programs(GetParam(), 2);
  EXPECT_EQ(programs.compiled.name(), "jit_identity");
  EXPECT_EQ(programs.compiled.num_devices(), 2);
  EXPECT_EQ(programs.compiled.addressable_device_ids_size(), 2);
  EXPECT_EQ(programs.compiled.fingerprint_value(), "f00d");
  IfrtRequest check;
  check.mutable_check_future_request()->set_future_handle(programs.compiled.ready_future_handle());
  EXPECT_TRUE(programs.client->Run(check).ok());

  const IfrtResponse first = programs.client->Call(programs.Execute({}));
  const auto& outputs = first.loaded_executable_execute_response().outputs();
  ASSERT_EQ(outputs.size(), 2);
  EXPECT_EQ(outputs[1].shape().dims(0), 4);
  EXPECT_EQ(first.loaded_executable_execute_response().status_handle(), 0u);
  EXPECT_EQ(*programs.client->Download(outputs[0].array_handle()), kBytes);

  const IfrtResponse later = programs.client->Call(programs.Execute({100, 101}));
  EXPECT_EQ(later.loaded_executable_execute_response().outputs_size(), 0);
  EXPECT_EQ(*programs.client->Download(100), kBytes);
}

// The end of an execution is asked for by one request since protocol 21, by another before.
TEST_P(ProgramsByProtocol, StatusOfAnExecution) {
  Programs programs(GetParam());
  const IfrtResponse first = programs.client->Call(programs.Execute({}, 0, true));
  const uint64_t drawn = first.loaded_executable_execute_response().status_handle();
  EXPECT_GE(drawn, uint64_t{1} << 48);
  ASSERT_TRUE(programs.client->Run(programs.Execute({100, 101}, 102, true)).ok());
  for (uint64_t handle : {drawn, uint64_t{102}}) {
    IfrtRequest fetch, check;
    fetch.mutable_loaded_executable_fetch_execute_result_request()->set_result_status_handle(handle);
    check.mutable_check_future_request()->set_future_handle(handle);
    EXPECT_EQ(programs.client->Run(fetch).ok(), GetParam() >= 21);
    EXPECT_EQ(programs.client->Run(check).ok(), GetParam() < 21);
  }
}

TEST(ProgramRequestsTest, FailedExecutionBindsResultsAndStatus) {
  Programs programs;
  programs.array = 999;
  EXPECT_FALSE(programs.client->Run(programs.Execute({100, 101}, 102, true), 7).ok());
  EXPECT_FALSE(programs.client->Ready({101}).ok());
  IfrtRequest fetch;
  fetch.mutable_loaded_executable_fetch_execute_result_request()->set_result_status_handle(102);
  EXPECT_EQ(programs.client->Run(fetch).GetPayload(kUserContextPayload), absl::Cord("7"));

  IfrtRequest negative = programs.Execute({103, 104});
  negative.mutable_loaded_executable_execute_request()->mutable_execute_options()->add_non_donatable_input_indices(-1);
  EXPECT_FALSE(programs.client->Run(negative).ok());
  EXPECT_FALSE(programs.client->Ready({103}).ok());
  IfrtRequest elsewhere = programs.Execute({105, 106});
  elsewhere.mutable_loaded_executable_execute_request()->add_device_ids(3);
  EXPECT_EQ(programs.client->Run(elsewhere).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(programs.client->client->state().results->size(), 0u);
}

TEST(ProgramRequestsTest, Metadata) {
  for (int partitions : {1, 2}) {
    Programs programs(kProtocolMax, partitions);
    IfrtRequest request;
    request.mutable_loaded_executable_metadata_request()->set_loaded_executable_handle(programs.executable);
    const IfrtResponse response = programs.client->Call(request);
    const auto& metadata = response.loaded_executable_metadata_response();
    EXPECT_EQ(metadata.has_parameter_shardings(), partitions > 1);
    if (partitions > 1) {
      EXPECT_EQ(metadata.parameter_shardings().shardings_size(), 1);
      EXPECT_EQ(metadata.output_shardings().shardings_size(), 2);
    }
    EXPECT_EQ(metadata.parameter_layouts_list().layouts_size(), 1);
    EXPECT_EQ(metadata.output_layouts_list().layouts(1).minor_to_major(0), 0);
    ASSERT_EQ(metadata.output_memory_kinds().memory_kind_lists_size(), 1);
    EXPECT_EQ(metadata.output_memory_kinds().memory_kind_lists(0).memory_kinds_size(), 2);
    EXPECT_EQ(metadata.donated_input_indices().donated_input_indices(0), 0u);
    EXPECT_EQ(metadata.compiled_memory_stats().generated_code_size_in_bytes(), 123);
    EXPECT_EQ(metadata.size_of_generated_code_in_bytes(), 123);
  }
}

TEST(ProgramRequestsTest, CostsTextAndEnd) {
  Programs programs;
  IfrtRequest costs, text, destruct, is_deleted, remove;
  costs.mutable_loaded_executable_cost_analysis_request()->set_loaded_executable_handle(programs.executable);
  text.mutable_loaded_executable_human_readable_program_text_request()->set_loaded_executable_handle(
      programs.executable);
  destruct.mutable_loaded_executable_destruct_request()->set_loaded_executable_handle(programs.executable);
  is_deleted.mutable_loaded_executable_is_deleted_request()->set_loaded_executable_handle(programs.executable);
  remove.mutable_loaded_executable_delete_request()->set_loaded_executable_handle(programs.executable);
  auto& client = *programs.client;
  EXPECT_EQ(
      client.Call(costs).loaded_executable_cost_analysis_response().attributes().attributes().at("flops").float_value(),
      8.0f);
  EXPECT_EQ(client.Call(text).loaded_executable_human_readable_program_text_response().human_readable_program_text(),
            "HloModule jit_identity");
  EXPECT_FALSE(client.Call(is_deleted).loaded_executable_is_deleted_response().is_deleted());
  EXPECT_TRUE(client.Run(remove).ok());
  EXPECT_TRUE(client.Call(is_deleted).loaded_executable_is_deleted_response().is_deleted());
  EXPECT_FALSE(client.Run(programs.Execute({100, 101})).ok());
  EXPECT_TRUE(client.Run(destruct).ok());
  EXPECT_FALSE(client.Run(destruct).ok());
  EXPECT_FALSE(client.Run(is_deleted).ok());
}

TEST(ProgramRequestsTest, WhatDoesNotCompileSaysWhy) {
  auto client = TestClient::Create();
  EXPECT_EQ(client->Run(CompileRequest("unknown")).code(), absl::StatusCode::kInvalidArgument);
  for (const char* type : {"xla::ifrt::CustomCallProgram", "x"}) {
    IfrtRequest request = CompileRequest("p");
    request.mutable_compile_request()->mutable_program()->set_type_name(type);
    EXPECT_EQ(client->Run(request).code(), absl::StatusCode::kUnimplemented);
  }
  IfrtRequest callbacks = CompileRequest("p");
  callbacks.mutable_compile_request()->add_host_callbacks("c");
  EXPECT_EQ(client->Run(callbacks).code(), absl::StatusCode::kUnimplemented);
  IfrtRequest options = CompileRequest("p");
  options.mutable_compile_request()->mutable_compile_options()->set_data("\xff\xff");
  EXPECT_EQ(client->Run(options).code(), absl::StatusCode::kInvalidArgument);
  // The client raises these at the call and would print the payload.
  for (const IfrtRequest& request : {CompileRequest("unknown"), options}) {
    EXPECT_FALSE(client->Run(request, 7).GetPayload(kUserContextPayload).has_value());
  }
  EXPECT_EQ(client->client->state().futures->size(), 0u);  // no readiness of what isn't
}

TEST(ProgramRequestsTest, Defaults) {
  auto client = TestClient::Create();
  IfrtRequest layout;
  auto* get = layout.mutable_get_default_layout_request();
  get->mutable_dtype()->set_kind(xla::ifrt::DTypeProto::KIND_F32);
  EXPECT_EQ(client->Call(layout).get_default_layout_response().serialized_pjrt_layout(), "{}");
  get->add_dims(2);
  get->add_dims(3);
  EXPECT_EQ(client->Call(layout).get_default_layout_response().serialized_pjrt_layout(), "{1,0}");
  get->set_device_id(4);
  EXPECT_FALSE(client->Run(layout).ok());

  IfrtRequest assignment;
  auto* default_assignment = assignment.mutable_get_default_device_assignment_request();
  default_assignment->set_num_replicas(2);
  default_assignment->set_num_partitions(2);
  const auto devices = client->Call(assignment).get_default_device_assignment_response().device_assignment();
  EXPECT_EQ(devices.computation_devices(1).replica_device_ids(1), 3);
  default_assignment->set_num_partitions(uint64_t{1} << 63);
  EXPECT_FALSE(client->Run(assignment).ok());
}

TEST(ProgramRequestsTest, CallbacksAndMpmd) {
  auto client = TestClient::Create();
  IfrtRequest poll, ret, mpmd;
  poll.mutable_loaded_host_callback_poll_request()->set_loaded_host_callback_handle(9);
  EXPECT_FALSE(client->Call(poll).loaded_host_callback_poll_response().has_host_callback_execution_handle());
  ret.mutable_loaded_host_callback_return_request()->set_host_callback_execution_handle(9);
  EXPECT_FALSE(client->Run(ret).ok());
  mpmd.mutable_loaded_executable_mpmd_metadata_request();
  EXPECT_EQ(client->Run(mpmd).code(), absl::StatusCode::kUnimplemented);
  mpmd.mutable_loaded_executable_mpmd_cost_analysis_request();
  EXPECT_EQ(client->Run(mpmd).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace switchtower
