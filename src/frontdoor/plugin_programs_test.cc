// Plug-in programs through the door's requests.
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "frontdoor/test_client.h"
#include "wire/ifrt/op_sharding.h"

namespace switchtower {
namespace {

const Shape kVector{DType::kS32, {4}};
const std::string kBytes = "0123456789abcdef";

std::string Json(const Sharding& sharding, const std::string& memory_kind = "device") {
  xla::OpSharding proto;
  EXPECT_TRUE(ToOpSharding(sharding, &proto).ok());
  std::string devices;
  for (DeviceId device : sharding.devices) devices += (devices.empty() ? "" : ",") + std::to_string(device.value);
  return "{\"devices\": {\"device_ids\": [" + devices + "]}, \"xla_hlo_sharding\": \"" +
         absl::Base64Escape(proto.SerializeAsString()) + "\", \"memory_kind\": \"" + memory_kind + "\"}";
}

IfrtRequest Compile(const std::string& json) {
  IfrtRequest request;
  auto* compile = request.mutable_compile_request();
  compile->mutable_program()->set_type_name("xla::ifrt::PluginProgram");
  compile->mutable_program()->set_data("__serialized_plugin_program " + json);
  compile->mutable_compile_options()->set_type_name("xla::ifrt::PluginCompileOptions");
  return request;
}

IfrtRequest CompileReshard(bool donate, const std::string& from, const std::string& to) {
  return Compile(std::string("{\"reshardRequest\": {\"donateInput\": ") + (donate ? "true" : "false") +
                 ", \"inSharding\": [" + from + "], \"outSharding\": [" + to + "]}}");
}

// A client with an array on device 0 that a program moves to devices 2 and 1, half to each.
struct Halves {
  explicit Halves(bool donate) {
    array = client->Put(kVector, kBytes, {0});
    compiled =
        client->Call(CompileReshard(donate, Json(TestClient::Replicated({0})), Json(TestClient::Rows({2, 1}, 1))))
            .compile_response();
  }
  IfrtRequest Execute(std::vector<uint64_t> results, uint64_t status = 0) {
    IfrtRequest request;
    auto* execute = request.mutable_loaded_executable_execute_request();
    execute->set_loaded_executable_handle(compiled.loaded_executable_handle());
    execute->add_args_handles(array);
    for (uint64_t result : results) execute->add_result_array_handle(result);
    execute->set_result_status_handle(status);
    execute->mutable_execute_options()->set_fill_status(true);
    return request;
  }
  absl::StatusOr<std::string> Half(uint64_t whole, int i) {
    IfrtRequest request;
    auto* take = request.mutable_disassemble_into_single_device_arrays_request();
    take->set_array_handle(whole);
    for (int k = 0; k < 2; ++k) take->add_result_handles(client->next_handle++);
    const absl::Status status = client->Run(request);
    if (!status.ok()) return status;
    return client->Download(take->result_handles(i));
  }
  absl::Status End(uint64_t status) {
    IfrtRequest fetch;
    fetch.mutable_loaded_executable_fetch_execute_result_request()->set_result_status_handle(status);
    return client->Run(fetch);
  }
  std::shared_ptr<TestClient> client = TestClient::Create();
  xla::ifrt::proxy::CompileResponse compiled;
  uint64_t array = 0;
};

TEST(PluginProgramsTest, FirstAndLaterReshards) {
  Halves halves(/*donate=*/false);
  ASSERT_EQ(halves.compiled.addressable_device_ids_size(), 1);
  IfrtRequest metadata;
  metadata.mutable_loaded_executable_metadata_request()->set_loaded_executable_handle(
      halves.compiled.loaded_executable_handle());
  const IfrtResponse described = halves.client->Call(metadata);
  EXPECT_EQ(described.loaded_executable_metadata_response().output_memory_kinds().memory_kind_lists(0).memory_kinds(0),
            "device");

  const IfrtResponse first = halves.client->Call(halves.Execute({}));
  const auto& reply = first.loaded_executable_execute_response();
  ASSERT_EQ(reply.outputs_size(), 1);
  EXPECT_EQ(reply.outputs(0).shape().dims(0), 4);
  EXPECT_EQ(*halves.Half(reply.outputs(0).array_handle(), 1), kBytes.substr(8));
  EXPECT_TRUE(halves.End(reply.status_handle()).ok());

  EXPECT_TRUE(halves.client->Run(halves.Execute({100}, 101)).ok());
  EXPECT_EQ(*halves.Half(100, 0), kBytes.substr(0, 8));
  EXPECT_TRUE(halves.End(101).ok());
}

TEST(PluginProgramsTest, ErrorsBindWhatTheClientNamed) {
  Halves halves(/*donate=*/false);
  const size_t before = halves.client->fake->arrays();
  const uint64_t good = std::exchange(halves.array, 999);
  EXPECT_FALSE(halves.client->Run(halves.Execute({})).ok());
  EXPECT_EQ(halves.client->fake->arrays(), before);
  EXPECT_FALSE(halves.client->Run(halves.Execute({100}, 101), 7).ok());
  EXPECT_FALSE(halves.client->Ready({100}).ok());
  EXPECT_EQ(halves.End(101).GetPayload(kUserContextPayload), absl::Cord("7"));

  halves.array = good;
  EXPECT_FALSE(halves.client->Run(halves.Execute({102, 103})).ok());
  ASSERT_TRUE(halves.client->Run(halves.Execute({104})).ok());
  halves.array = halves.client->Put(Shape{DType::kS32, {2}}, "01234567", {0});
  EXPECT_FALSE(halves.client->Run(halves.Execute({105})).ok()) << "the client thinks that the result has four elements";
}

TEST(PluginProgramsTest, TheEndOfAProgram) {
  Halves halves(/*donate=*/false);
  IfrtRequest is_deleted, remove, destruct;
  const uint64_t executable = halves.compiled.loaded_executable_handle();
  is_deleted.mutable_loaded_executable_is_deleted_request()->set_loaded_executable_handle(executable);
  remove.mutable_loaded_executable_delete_request()->set_loaded_executable_handle(executable);
  destruct.mutable_loaded_executable_destruct_request()->set_loaded_executable_handle(executable);
  EXPECT_FALSE(halves.client->Call(is_deleted).loaded_executable_is_deleted_response().is_deleted());
  EXPECT_TRUE(halves.client->Run(remove).ok());
  EXPECT_TRUE(halves.client->Call(is_deleted).loaded_executable_is_deleted_response().is_deleted());
  EXPECT_FALSE(halves.client->Run(halves.Execute({100})).ok());
  EXPECT_TRUE(halves.client->Run(destruct).ok());
  EXPECT_FALSE(halves.client->Run(destruct).ok());
}

TEST(PluginProgramsTest, WhatDoesNotCompile) {
  auto client = TestClient::Create();
  const std::string here = Json(TestClient::Replicated({0}));
  EXPECT_EQ(client->Run(Compile("{\"profileRequest\": {}}")).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(client->Run(Compile("{}")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Run(CompileReshard(false, here, Json(TestClient::Replicated({9})))).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Run(CompileReshard(false, here, Json(TestClient::Replicated({1}), "attic"))).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client->client->state().futures->size(), 0u);
}

}  // namespace
}  // namespace switchtower
