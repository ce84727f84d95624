// For tests of the request handlers: a ClientSession over a FakeSession, without gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/api/fake_session.h"
#include "frontdoor/client_session.h"
#include "wire/ifrt/shape.h"
#include "wire/ifrt/sharding.h"
#include "wire/ifrt/status.h"

namespace switchtower {

class TestClient final : public ReplySink, public std::enable_shared_from_this<TestClient> {
 public:
  static std::shared_ptr<TestClient> Create(int protocol = kProtocolMax, int devices = 4) {
    return std::make_shared<TestClient>(protocol, devices);
  }
  TestClient(int protocol, int devices) {
    auto session = std::make_unique<FakeSession>(SessionId{81}, 2, devices / 2);
    fake = session.get();
    buffers = std::make_shared<HostBufferStore>(int64_t{1} << 20);
    client = std::make_unique<ClientSession>(std::move(session), ProxyVersion{protocol, 3}, buffers, "81:secret");
  }

  void Send(IfrtResponse response) override { replies.push_back(std::move(response)); }

  // Handles a request; its answer may come later.
  uint64_t Post(IfrtRequest request, uint64_t user_context = 0) {
    request.mutable_request_metadata()->set_op_id(++op_id);
    request.mutable_request_metadata()->set_user_context_id(user_context);
    client->Handle(request, weak_from_this());
    return op_id;
  }
  // The answer to an earlier request, if it is there.
  const IfrtResponse* Find(uint64_t op) const {
    for (const auto& reply : replies) {
      if (reply.response_metadata().op_id() == op) return &reply;
    }
    return nullptr;
  }
  // Handles a request that is answered at once.
  IfrtResponse Call(IfrtRequest request, uint64_t user_context = 0) {
    const uint64_t op = Post(std::move(request), user_context);
    const IfrtResponse* reply = Find(op);
    EXPECT_NE(reply, nullptr);
    return reply == nullptr ? IfrtResponse() : *reply;
  }
  static absl::Status StatusOf(const IfrtResponse& response) {
    absl::Status status = FromProto(response.response_metadata().status());
    // An answer is an error or a response, never both, never neither.
    EXPECT_EQ(status.ok(), response.response_case() != IfrtResponse::RESPONSE_NOT_SET);
    return status;
  }
  absl::Status Run(IfrtRequest request, uint64_t user_context = 0) {
    return StatusOf(Call(std::move(request), user_context));
  }

  void Upload(uint64_t handle, const std::string& bytes) {
    auto upload = buffers->BeginUpload(handle, static_cast<int64_t>(bytes.size()));
    ASSERT_TRUE(upload.ok()) << upload.status();
    for (size_t i = 0; i < bytes.size(); i += 7) {
      (*upload)->Append(std::make_shared<const std::string>(bytes.substr(i, 7)));
    }
    EXPECT_TRUE((*upload)->Finish(absl::OkStatus()).ok());
  }
  absl::StatusOr<std::string> Download(uint64_t array) {
    const uint64_t handle = next_handle++;
    IfrtRequest request;
    request.mutable_copy_to_host_buffer_request()->set_array_handle(array);
    request.mutable_copy_to_host_buffer_request()->set_host_buffer_handle(handle);
    absl::Status status = Run(std::move(request));
    if (!status.ok()) return status;
    auto download = buffers->Lookup(handle);
    if (!download.ok()) return download.status();
    std::string bytes;
    for (const auto& chunk : download->chunks) bytes += *chunk;
    buffers->Delete(handle);
    return bytes;
  }

  // A put of `bytes` to all of `devices`; returns the array's handle.
  uint64_t Put(const Shape& shape, const std::string& bytes, std::vector<int> devices) {
    const uint64_t handle = next_handle++;
    EXPECT_TRUE(Run(MakeArray(handle, shape, Replicated(std::move(devices)))).ok());
    Upload(handle, bytes);
    return handle;
  }
  static Sharding Replicated(std::vector<int> devices) {
    Sharding sharding;
    sharding.kind = devices.size() == 1 ? Sharding::Kind::kSingleDevice : Sharding::Kind::kReplicated;
    for (int device : devices) sharding.devices.push_back(DeviceId{static_cast<uint64_t>(device)});
    return sharding;
  }
  // Cuts dimension 0 of an array over the devices.
  static Sharding Rows(std::vector<int> devices, int rank) {
    Sharding sharding = Replicated(devices);
    sharding.kind = Sharding::Kind::kTiled;
    sharding.tile_dims.assign(rank, 1);
    sharding.tile_dims[0] = static_cast<int64_t>(devices.size());
    for (size_t i = 0; i < devices.size(); ++i) sharding.tile_devices.push_back(static_cast<int64_t>(i));
    return sharding;
  }
  static IfrtRequest MakeArray(uint64_t handle, const Shape& shape, const Sharding& sharding) {
    IfrtRequest request;
    auto* make = request.mutable_make_array_from_host_buffer_request();
    ToProto(shape.dtype, make->mutable_dtype());
    ToProto(shape.dims, make->mutable_shape());
    EXPECT_TRUE(ToProto(sharding, shape, make->mutable_sharding()).ok());
    make->set_host_buffer_handle(handle);
    make->set_array_handle(handle);
    return request;
  }
  static xla::ifrt::ArraySpecProto Spec(const Shape& shape, const Sharding& sharding) {
    xla::ifrt::ArraySpecProto spec;
    ToProto(shape.dtype, spec.mutable_dtype());
    ToProto(shape.dims, spec.mutable_shape());
    EXPECT_TRUE(ToProto(sharding, shape, spec.mutable_sharding()).ok());
    return spec;
  }
  absl::Status Ready(std::vector<uint64_t> arrays) {
    IfrtRequest request;
    request.mutable_check_value_ready_request();
    for (uint64_t array : arrays) request.mutable_check_value_ready_request()->add_value_handles(array);
    return Run(std::move(request));
  }

  FakeSession* fake = nullptr;
  std::shared_ptr<HostBufferStore> buffers;
  std::vector<IfrtResponse> replies;
  std::unique_ptr<ClientSession> client;
  uint64_t op_id = 0;
  uint64_t next_handle = 1;
};

}  // namespace switchtower
