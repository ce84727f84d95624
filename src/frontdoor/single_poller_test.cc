#include "frontdoor/single_poller.h"

#include <future>
#include <memory>
#include <thread>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

class SinglePollerTest : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override { server_->Shutdown(); }

  // By the callback API, as all calls of the door.
  grpc::StatusCode Call() {
    grpc::ClientContext context;
    grpc::Slice nothing;
    grpc::ByteBuffer request(&nothing, 1), response;
    std::promise<grpc::StatusCode> code;
    grpc::GenericStub(server_->InProcessChannel({}))
        .UnaryCall(&context, "/some/Method", {}, &request, &response,
                   [&code](grpc::Status status) { code.set_value(status.error_code()); });
    return code.get_future().get();
  }

  grpc::CallbackGenericService service_;  // serves nothing
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SinglePollerTest, CallsAreServedWhileAThreadIsKept) {
  auto single = SinglePoller::Create(*server_, 2);
  ASSERT_NE(single, nullptr);
  while (!single->keeps()) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Call(), grpc::StatusCode::UNIMPLEMENTED);
  single = nullptr;
  EXPECT_EQ(Call(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(SinglePollerTest, AProcessHasOne) {
  auto single = SinglePoller::Create(*server_, 2);
  ASSERT_NE(single, nullptr);
  EXPECT_EQ(SinglePoller::Create(*server_, 2), nullptr);
  single = nullptr;  // also before a thread is kept
  EXPECT_NE(SinglePoller::Create(*server_, 2), nullptr);
}

TEST_F(SinglePollerTest, WhereThereAreCoresAllThreadsWait) { EXPECT_EQ(SinglePoller::Create(*server_, 8), nullptr); }

}  // namespace
}  // namespace switchtower
