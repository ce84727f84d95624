// For tests of all kinds of requests: a client over a session of the real controller, with one thing of each kind that
// a handle can stand for, and a request of each kind that works on them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "frontdoor/test_client.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/python/pjrt_ifrt/xla_compiler.pb.h"

namespace switchtower {

inline const Shape kSampleShape{DType::kF32, {8}};
inline const std::string kSampleBytes(32, 'x');

class SampleClient final : public ReplySink, public std::enable_shared_from_this<SampleClient> {
 public:
  // `settle` returns once what was asked for is answered. The compiler knows the program "one": an argument, a result.
  SampleClient(std::unique_ptr<Session> session, int protocol, uint64_t first_handle, std::function<void()> settle)
      : settle_(std::move(settle)),
        next_(first_handle),
        client_(std::move(session), ProxyVersion{protocol, kSerdesMax}, buffers, "1:secret") {}

  void Send(IfrtResponse response) override {
    MutexLock lock(mutex_);
    const uint64_t op = response.response_metadata().op_id();
    replies_[op] = std::move(response);
  }
  IfrtResponse Call(IfrtRequest request) {
    request.mutable_request_metadata()->set_op_id(++op_);
    client_.Handle(request, weak_from_this());
    settle_();
    MutexLock lock(mutex_);
    EXPECT_TRUE(replies_.contains(op_)) << request.ShortDebugString();
    return replies_[op_];
  }
  absl::Status Run(IfrtRequest request) { return TestClient::StatusOf(Call(std::move(request))); }
  // With the end that a deletion's answer leaves to a future.
  absl::Status RunToEnd(IfrtRequest request) {
    const IfrtResponse response = Call(std::move(request));
    const absl::Status status = TestClient::StatusOf(response);
    if (!status.ok() || !response.has_delete_array_response()) return status;
    IfrtRequest check;
    check.mutable_check_future_request()->set_future_handle(response.delete_array_response().deletion_future_handle());
    return Run(check);
  }
  uint64_t NewHandle() { return next_++; }

  // All kinds of things that a handle can stand for.
  void MakeThings() {
    array = Put();
    deleted = Put();
    IfrtRequest remove;
    remove.mutable_delete_array_request()->add_array_handle(deleted);
    deletion = Call(remove).delete_array_response().deletion_future_handle();
    const IfrtResponse compiled = Call(CompileOne());
    executable = compiled.compile_response().loaded_executable_handle();
    ready = compiled.compile_response().ready_future_handle();
    IfrtRequest first;
    first.mutable_loaded_executable_execute_request()->set_loaded_executable_handle(executable);
    first.mutable_loaded_executable_execute_request()->add_args_handles(array);
    first.mutable_loaded_executable_execute_request()->mutable_execute_options()->set_fill_status(true);
    const IfrtResponse executed = Call(first);
    status = executed.loaded_executable_execute_response().status_handle();
    output = executed.loaded_executable_execute_response().outputs(0).array_handle();
    upload = NewHandle();
    EXPECT_FALSE((*buffers->BeginUpload(upload, 32))->Finish(absl::CancelledError("broken off")).ok());
    download = NewHandle();
    EXPECT_TRUE(buffers->Put(download, {std::make_shared<const std::string>(kSampleBytes)}).ok());
  }
  std::vector<uint64_t> Things() const {
    return {array, deleted, deletion, executable, ready, status, output, upload, download};
  }

  static IfrtRequest CompileOne() {
    xla::CompileOptionsProto plain;
    auto* build = plain.mutable_executable_build_options();
    build->set_num_replicas(1);
    build->set_num_partitions(1);
    build->mutable_device_assignment()->set_replica_count(1);
    build->mutable_device_assignment()->set_computation_count(1);
    build->mutable_device_assignment()->add_computation_devices()->add_replica_device_ids(0);
    xla::ifrt::XlaCompileOptionsProto options;
    options.set_compile_options(plain.SerializeAsString());
    IfrtRequest request;
    auto* compile = request.mutable_compile_request();
    compile->mutable_program()->set_type_name("xla::ifrt::XlaProgram");
    compile->mutable_program()->set_data("one");
    compile->mutable_compile_options()->set_type_name("xla::ifrt::XlaCompileOptions");
    compile->mutable_compile_options()->set_data(options.SerializeAsString());
    return request;
  }

  uint64_t Put() {
    const uint64_t handle = NewHandle();
    EXPECT_TRUE(Run(TestClient::MakeArray(handle, kSampleShape, TestClient::Replicated({0}))).ok());
    auto upload = buffers->BeginUpload(handle, 32);
    (*upload)->Append(std::make_shared<const std::string>(kSampleBytes));
    EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());
    return handle;
  }

  // Everything is as MakeThings left it. Once: some of it can be asked for only once.
  void ExpectUnharmed() {
    for (uint64_t there : {array, output}) {
      IfrtRequest request;
      request.mutable_is_array_deleted_request()->set_array_handle(there);
      EXPECT_FALSE(Call(request).is_array_deleted_response().deleted());
      IfrtRequest wait;
      wait.mutable_check_value_ready_request()->add_value_handles(there);
      EXPECT_TRUE(Run(wait).ok());
    }
    IfrtRequest gone, metadata, fetch;
    gone.mutable_is_array_deleted_request()->set_array_handle(deleted);
    EXPECT_TRUE(Call(gone).is_array_deleted_response().deleted());
    metadata.mutable_loaded_executable_metadata_request()->set_loaded_executable_handle(executable);
    EXPECT_TRUE(Run(metadata).ok());
    fetch.mutable_loaded_executable_fetch_execute_result_request()->set_result_status_handle(status);
    EXPECT_TRUE(Run(fetch).ok());
    for (uint64_t future : {ready, deletion}) {
      IfrtRequest check;
      check.mutable_check_future_request()->set_future_handle(future);
      EXPECT_TRUE(Run(check).ok());
    }
    EXPECT_TRUE(buffers->Lookup(download).ok());
    EXPECT_TRUE(buffers->Take(upload, 32).ok());
  }

  const std::shared_ptr<HostBufferStore> buffers = std::make_shared<HostBufferStore>(int64_t{1} << 20);
  uint64_t array = 0, deleted = 0, deletion = 0, executable = 0, ready = 0, status = 0, output = 0, upload = 0,
           download = 0;

 private:
  const std::function<void()> settle_;
  uint64_t next_, op_ = 0;
  Mutex mutex_;
  std::map<uint64_t, IfrtResponse> replies_ GUARDED_BY(mutex_);
  ClientSession client_;
};

// A request of this kind that works, on things of `client`'s own.
inline IfrtRequest SampleRequest(int kind, SampleClient& client) {
  const xla::ifrt::ArraySpecProto spec = TestClient::Spec(kSampleShape, TestClient::Replicated({0}));
  IfrtRequest request;
  switch (kind) {
    case IfrtRequest::kInitRequest:
      request.mutable_init_request();
      break;
    case IfrtRequest::kGetDefaultDeviceAssignmentRequest:
      request.mutable_get_default_device_assignment_request()->set_num_replicas(1);
      request.mutable_get_default_device_assignment_request()->set_num_partitions(4);
      break;
    case IfrtRequest::kGetDefaultLayoutRequest:
      *request.mutable_get_default_layout_request()->mutable_dtype() = spec.dtype();
      request.mutable_get_default_layout_request()->add_dims(8);
      request.mutable_get_default_layout_request()->set_memory_kind("device");
      break;
    case IfrtRequest::kCompileRequest:
      return SampleClient::CompileOne();
    case IfrtRequest::kCheckFutureRequest:
      request.mutable_check_future_request()->set_future_handle(client.ready);
      break;
    case IfrtRequest::kCheckValueReadyRequest:
      request.mutable_check_value_ready_request()->add_value_handles(client.array);
      break;
    case IfrtRequest::kMakeArrayFromHostBufferRequest:
      return TestClient::MakeArray(client.NewHandle(), kSampleShape, TestClient::Replicated({0}));
    case IfrtRequest::kMakeArraysFromHostBufferShardsRequest: {
      auto* make = request.mutable_make_arrays_from_host_buffer_shards_request();
      auto* one = make->add_specs();
      *one->mutable_array_spec() = spec;
      one->add_addressable_shard_indices()->add_indices(0);
      auto* buffer = one->add_host_buffers();
      *buffer->mutable_dtype() = spec.dtype();
      *buffer->mutable_shape() = spec.shape();
      buffer->set_host_buffer_handle(client.NewHandle());
      make->add_array_handles(buffer->host_buffer_handle());
      break;
    }
    case IfrtRequest::kMakeErrorArraysRequest: {
      auto* make = request.mutable_make_error_arrays_request();
      make->mutable_error()->set_code(tensorflow::error::ABORTED);
      *make->add_array_specs() = spec;
      make->add_array_handles(client.NewHandle());
      break;
    }
    case IfrtRequest::kCopyToHostBufferRequest:
      request.mutable_copy_to_host_buffer_request()->set_array_handle(client.array);
      request.mutable_copy_to_host_buffer_request()->set_host_buffer_handle(client.NewHandle());
      break;
    case IfrtRequest::kAssembleArrayFromSingleDeviceArraysRequest: {
      auto* assemble = request.mutable_assemble_array_from_single_device_arrays_request();
      *assemble->mutable_shape() = spec.shape();
      *assemble->mutable_sharding() = spec.sharding();
      assemble->add_single_device_array_handles(client.array);
      assemble->set_result_handle(client.NewHandle());
      break;
    }
    case IfrtRequest::kDisassembleIntoSingleDeviceArraysRequest:
      request.mutable_disassemble_into_single_device_arrays_request()->set_array_handle(client.array);
      request.mutable_disassemble_into_single_device_arrays_request()->add_result_handles(client.NewHandle());
      break;
    case IfrtRequest::kFullyReplicatedShardRequest:
      request.mutable_fully_replicated_shard_request()->set_array_handle(client.array);
      request.mutable_fully_replicated_shard_request()->set_result_handle(client.NewHandle());
      break;
    case IfrtRequest::kCopyArraysRequest:
      request.mutable_copy_arrays_request()->add_array_handles(client.array);
      request.mutable_copy_arrays_request()->add_device_ids(1);
      request.mutable_copy_arrays_request()->add_result_handles(client.NewHandle());
      break;
    case IfrtRequest::kRemapArraysRequest: {
      auto* remap = request.mutable_remap_arrays_request();
      *remap->mutable_plan()->add_input_specs() = spec;
      *remap->mutable_plan()->add_output_specs() = spec;
      auto* mapping = remap->mutable_plan()->add_mappings();
      for (auto* list : {mapping->mutable_from_start(), mapping->mutable_to_start()}) list->Add(0);
      for (auto* list : {mapping->mutable_from_end(), mapping->mutable_to_end()}) list->Add(1);
      for (auto* list : {mapping->mutable_from_step(), mapping->mutable_to_step()}) list->Add(1);
      remap->add_array_handles(client.array);
      remap->add_result_handles(client.NewHandle());
      break;
    }
    case IfrtRequest::kReshardArraysRequest:
      request.mutable_reshard_arrays_request()->add_array_handles(client.array);
      *request.mutable_reshard_arrays_request()->add_array_specs() =
          TestClient::Spec(kSampleShape, TestClient::Rows({0, 1}, 1));
      request.mutable_reshard_arrays_request()->add_result_handles(client.NewHandle());
      break;
    case IfrtRequest::kBitcastArraysRequest:
      request.mutable_bitcast_arrays_request()->add_array_handles(client.array);
      *request.mutable_bitcast_arrays_request()->add_array_specs() = spec;
      request.mutable_bitcast_arrays_request()->add_result_handles(client.NewHandle());
      break;
    case IfrtRequest::kDeleteArrayRequest:
      request.mutable_delete_array_request()->add_array_handle(client.Put());
      break;
    case IfrtRequest::kIsArrayDeletedRequest:
      request.mutable_is_array_deleted_request()->set_array_handle(client.array);
      break;
    case IfrtRequest::kDestructArrayRequest:
      request.mutable_destruct_array_request()->add_array_handle(client.Put());
      break;
    case IfrtRequest::kLoadedExecutableMetadataRequest:
      request.mutable_loaded_executable_metadata_request()->set_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedExecutableCostAnalysisRequest:
      request.mutable_loaded_executable_cost_analysis_request()->set_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedExecutableHumanReadableProgramTextRequest:
      request.mutable_loaded_executable_human_readable_program_text_request()->set_loaded_executable_handle(
          client.executable);
      break;
    case IfrtRequest::kLoadedExecutableExecuteRequest: {
      auto* execute = request.mutable_loaded_executable_execute_request();
      execute->set_loaded_executable_handle(client.executable);
      execute->add_args_handles(client.array);
      execute->mutable_execute_options()->add_non_donatable_input_indices(0);
      execute->mutable_execute_options()->set_fill_status(true);
      execute->add_result_array_handle(client.NewHandle());
      execute->set_result_status_handle(client.NewHandle());
      break;
    }
    case IfrtRequest::kLoadedExecutableFetchExecuteResultRequest:
      request.mutable_loaded_executable_fetch_execute_result_request()->set_result_status_handle(client.status);
      break;
    case IfrtRequest::kLoadedExecutableDeleteRequest:
      request.mutable_loaded_executable_delete_request()->set_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedExecutableIsDeletedRequest:
      request.mutable_loaded_executable_is_deleted_request()->set_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedExecutableDestructRequest:
      request.mutable_loaded_executable_destruct_request()->set_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedExecutableMpmdMetadataRequest:
      request.mutable_loaded_executable_mpmd_metadata_request()->set_mpmd_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedExecutableMpmdCostAnalysisRequest:
      request.mutable_loaded_executable_mpmd_cost_analysis_request()->set_loaded_executable_handle(client.executable);
      break;
    case IfrtRequest::kLoadedHostCallbackPollRequest:
      request.mutable_loaded_host_callback_poll_request()->set_loaded_host_callback_handle(1);
      request.mutable_loaded_host_callback_poll_request()->set_operand_host_buffer_handle(client.NewHandle());
      break;
    case IfrtRequest::kLoadedHostCallbackReturnRequest:
      request.mutable_loaded_host_callback_return_request()->set_host_callback_execution_handle(1);
      request.mutable_loaded_host_callback_return_request()->set_result_host_buffer_handle(client.NewHandle());
      break;
    default:
      ADD_FAILURE() << "no request of kind " << kind << " is written here";
  }
  return request;
}

}  // namespace switchtower
