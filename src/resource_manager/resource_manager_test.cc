// The server with its two clients over loopback gRPC.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "resource_manager/cluster_proto.h"
#include "resource_manager/resource_manager_client.h"
#include "resource_manager/resource_manager_server.h"
#include "resource_manager/worker_registration.h"
#include "switchtower/resource_manager_service.grpc.pb.h"
#include "types/home_door.h"

namespace switchtower {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::unique_ptr<ResourceManagerServer> StartServer(int count = 1, int heartbeat_timeout_ms = 10000) {
  ResourceManagerOptions options;
  options.cluster = {count, "cpu:1x2"};
  options.heartbeat_timeout_ms = heartbeat_timeout_ms;
  auto server = ResourceManagerServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return std::move(server).value();
}

std::string Address(const ResourceManagerServer& server) { return "grpc://127.0.0.1:" + std::to_string(server.port()); }

WorkerRegistration::Options Worker(const ResourceManagerServer& server, int devices = 2) {
  WorkerRegistration::Options options;
  options.manager = Address(server);
  options.timeout = milliseconds(20000);
  options.worker.num_devices = devices;
  options.worker.device_type = {"cpu", "cpu", "avx2", {"device", "pinned_host"}};
  options.worker.command_addresses = {"tcp:127.0.0.1:1"};
  return options;
}

std::unique_ptr<ResourceManagerClient> Client(const ResourceManagerServer& server) {
  // The machine may be busy with other tests.
  auto client = ResourceManagerClient::Connect(Address(server), milliseconds(20000),
                                               {.for_leases = milliseconds(60000), .for_lists = milliseconds(60000)});
  EXPECT_TRUE(client.ok()) << client.status();
  return std::move(client).value();
}

// A proxy's stream as it is, for what no client of ours does. What it doesn't read soon fills the stream.
struct RawProxy {
  explicit RawProxy(const ResourceManagerServer& server)
      : stub(ResourceManagerService::NewStub(grpc::CreateCustomChannel(
            "127.0.0.1:" + std::to_string(server.port()), grpc::InsecureChannelCredentials(), SmallWindow()))),
        stream(stub->Proxy(&context)) {}
  ~RawProxy() { context.TryCancel(); }

  bool Hello() {
    ProxyCall call;
    call.mutable_hello()->set_protocol_version(kResourceManagerProtocol);
    return stream->Write(call);
  }
  bool AskForSlices() {
    ProxyCall call;
    call.set_list_slices_request_id(1);
    return stream->Write(call);
  }
  bool Beat() {
    ProxyCall call;
    call.mutable_heartbeat();
    return stream->Write(call);
  }

  static grpc::ChannelArguments SmallWindow() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // or it grows with the connection's speed
    return arguments;
  }

  std::unique_ptr<ResourceManagerService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<ProxyCall, ProxyReply>> stream;
};

TEST(ResourceManager, LeaseFollowsWorkersThroughLossAndReturn) {
  auto server = StartServer();
  auto client = Client(*server);
  std::promise<LeaseState> empty, joined, lost;
  int step = 0;  // reader thread
  const auto lease = client->Acquire({{}, "test"}, [&](const LeaseState& state) {
    const size_t workers = state.slices.at(0).workers.size();
    if (step == 0 && workers == 0) {
      ++step;
      empty.set_value(state);
    } else if (step == 1 && workers == 1) {
      ++step;
      joined.set_value(state);
    } else if (step == 2 && workers == 0) {
      ++step;
      lost.set_value(state);
    }
  });
  ASSERT_TRUE(lease.ok()) << lease.status();
  const LeaseState first = empty.get_future().get();
  EXPECT_EQ(first.slices[0].type, "cpu:1x2");

  std::promise<std::vector<LeaseGrant>> granted;
  auto options = Worker(*server);
  options.on_grants = [&, done = false](std::vector<LeaseGrant> grants) mutable {
    if (grants.empty() || done) return;
    done = true;
    granted.set_value(std::move(grants));
  };
  auto worker = WorkerRegistration::Join(std::move(options));
  ASSERT_TRUE(worker.ok()) << worker.status();
  const LeaseState with = joined.get_future().get();
  EXPECT_EQ(with.slices[0].workers[0].id, (*worker)->identity().id);
  EXPECT_EQ(with.slices[0].workers[0].device_type.memory_kinds[1], "pinned_host");
  const LeaseGrant grant = granted.get_future().get().at(0);
  EXPECT_EQ(grant.secret, with.secret);
  EXPECT_EQ(grant.epoch, with.home_epoch);
  EXPECT_EQ((*worker)->identity().cluster_id, client->cluster_id());

  worker->reset();
  EXPECT_TRUE(lost.get_future().get().slices[0].workers.empty());
}

TEST(ResourceManager, EveryWorkerOfALeaseIsGrantedIt) {
  auto server = StartServer(4);
  std::vector<std::unique_ptr<WorkerRegistration>> workers;
  std::vector<std::unique_ptr<std::promise<void>>> granted;
  for (int i = 0; i < 4; ++i) {
    granted.push_back(std::make_unique<std::promise<void>>());
    auto options = Worker(*server);
    options.on_grants = [promise = granted.back().get(), done = false](std::vector<LeaseGrant> grants) mutable {
      if (!grants.empty() && !std::exchange(done, true)) promise->set_value();
    };
    auto worker = WorkerRegistration::Join(std::move(options));
    ASSERT_TRUE(worker.ok()) << worker.status();
    workers.push_back(std::move(*worker));
  }
  auto client = Client(*server);
  ASSERT_TRUE(client->Acquire({{}, "test"}, [](const LeaseState&) {}).ok());
  for (auto& promise : granted) {
    EXPECT_EQ(promise->get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
}

TEST(ResourceManager, ASecondProxyHearsWhereTheHomeIs) {
  auto server = StartServer();
  auto home = Client(*server), other = Client(*server);
  const auto lease = home->Acquire({{}, "home"}, [](const LeaseState&) {});
  ASSERT_TRUE(lease.ok());
  auto ask = [&] { return other->Acquire({{}, "other"}, [](const LeaseState&) {}); };
  EXPECT_EQ(ask().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(HomeDoorOf(ask().status()), std::nullopt);  // it hasn't said yet
  home->AnnounceDoor("10.0.0.7:29000");
  home->Slices().status().IgnoreError();  // answered after what was said before
  EXPECT_EQ(HomeDoorOf(ask().status()), "10.0.0.7:29000");
  // Slices of one's own are another matter.
  const absl::Status exclusive = other->Acquire({{{"cpu:1x2"}}, "other"}, [](const LeaseState&) {}).status();
  EXPECT_EQ(exclusive.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(HomeDoorOf(exclusive), std::nullopt);
  home->Release(*lease);
  home->Slices().status().IgnoreError();
  EXPECT_TRUE(ask().ok());
}

TEST(ResourceManager, ProxyEndFreesItsLeases) {
  auto server = StartServer();
  auto first = Client(*server);
  ASSERT_TRUE(first->Acquire({{{"cpu:1x2"}}, "first"}, [](const LeaseState&) {}).ok());
  auto second = Client(*server);
  EXPECT_EQ(second->Acquire({{{"cpu:1x2"}}, "second"}, [](const LeaseState&) {}).status().code(),
            absl::StatusCode::kResourceExhausted);
  first.reset();
  // The server sees the end of the stream by itself; ask until it has.
  absl::Status status = absl::UnknownError("");
  for (int i = 0; i < 1000 && !status.ok(); ++i) {
    status = second->Acquire({{{"cpu:1x2"}}, "second"}, [](const LeaseState&) {}).status();
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ResourceManager, RefusalsAreFinalAndSayWhy) {
  auto server = StartServer();
  const auto worker = WorkerRegistration::Join(Worker(*server, 3));
  ASSERT_FALSE(worker.ok());
  EXPECT_THAT(std::string(worker.status().message()), HasSubstr("3 devices"));
}

TEST(ResourceManager, AProxySaysHelloFirst) {
  auto server = StartServer();
  RawProxy proxy(*server);
  ASSERT_TRUE(proxy.AskForSlices());
  ProxyReply reply;
  ASSERT_TRUE(proxy.stream->Read(&reply));
  EXPECT_THAT(reply.rejected().message(), HasSubstr("hello"));
  EXPECT_FALSE(proxy.stream->Read(&reply));
}

// It beats on, so that only what it leaves unread can end it.
TEST(ResourceManager, AProxyThatTakesNoAnswersIsEnded) {
  auto server = StartServer(/*count=*/2000, /*heartbeat_timeout_ms=*/300);
  RawProxy proxy(*server);
  ASSERT_TRUE(proxy.Hello());
  bool taken = true;
  for (int i = 0; i < 300 && taken; ++i) taken = proxy.AskForSlices();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (taken && std::chrono::steady_clock::now() < deadline) {
    taken = proxy.Beat();
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_FALSE(taken);
}

TEST(ResourceManager, AHolderThatWasBusyHearsOfTheLeaseAsItIsNow) {
  auto server = StartServer(/*count=*/2000, /*heartbeat_timeout_ms=*/600000);  // large states
  RawProxy proxy(*server);
  ASSERT_TRUE(proxy.Hello());
  ProxyCall acquire;
  acquire.mutable_acquire()->set_owner("test");
  ASSERT_TRUE(proxy.stream->Write(acquire));
  ProxyReply reply;
  while (!reply.has_lease()) ASSERT_TRUE(proxy.stream->Read(&reply));
  constexpr int kLeft = 30;
  for (int i = 0; i < kLeft; ++i) ASSERT_TRUE(WorkerRegistration::Join(Worker(*server)).ok());
  auto stays = WorkerRegistration::Join(Worker(*server));
  ASSERT_TRUE(stays.ok()) << stays.status();
  auto watcher = Client(*server);
  const auto workers = [](const auto& slices) {
    int count = 0;
    for (const auto& slice : slices) count += slice.workers.size();
    return count;
  };
  while (workers(*watcher->Slices()) != 1) std::this_thread::sleep_for(milliseconds(5));
  int states = 0;
  for (bool now = false; !now;) {
    ASSERT_TRUE(proxy.stream->Read(&reply));
    ++states;
    const LeaseStateProto& state = reply.state();
    std::vector<uint64_t> ids;
    for (const SliceProto& slice : state.slices()) {
      for (const WorkerProto& worker : slice.workers()) ids.push_back(worker.id());
    }
    now = ids == std::vector<uint64_t>{(*stays)->identity().id.value};
  }
  EXPECT_LT(states, kLeft);  // of over twice as many changes
}

// A gigabyte of zeros is a megabyte then.
TEST(ResourceManager, CompressedMessagesAreRefused) {
  auto server = StartServer();
  const auto stub = ResourceManagerService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()), grpc::InsecureChannelCredentials()));
  for (auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    auto stream = stub->Proxy(&context);
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
}

// A manager that welcomes a proxy, lists nothing and takes `delay` to grant lease 7.
class SlowManager : public ResourceManagerService::Service {
 public:
  explicit SlowManager(milliseconds delay) : delay_(delay) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SlowManager() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::future<uint64_t> released() { return released_.get_future(); }

 private:
  grpc::Status Proxy(grpc::ServerContext*, grpc::ServerReaderWriter<ProxyReply, ProxyCall>* stream) override {
    ProxyCall call;
    while (stream->Read(&call)) {
      ProxyReply reply;
      if (call.has_hello()) {
        reply.mutable_accepted()->set_heartbeat_interval_ms(1000);
        stream->Write(reply);
      } else if (call.has_acquire()) {
        std::this_thread::sleep_for(delay_);
        reply.mutable_lease()->set_request_id(call.acquire().request_id());
        reply.mutable_lease()->set_lease_id(7);
        stream->Write(reply);
      } else if (call.call_case() == ProxyCall::kReleaseLeaseId) {
        released_.set_value(call.release_lease_id());
      }
    }
    return grpc::Status::OK;
  }

  const milliseconds delay_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::promise<uint64_t> released_;
};

TEST(ResourceManager, AManagerThatSaysNothingIsWaitedForSoLongOnly) {
  SlowManager manager(milliseconds(300));
  auto released = manager.released();
  auto client = *ResourceManagerClient::Connect(manager.address(), milliseconds(20000),
                                                {.for_leases = milliseconds(50), .for_lists = milliseconds(50)});
  EXPECT_EQ(client->Slices().status().code(), absl::StatusCode::kDeadlineExceeded);
  const absl::Status late = client->Acquire({}, [](const LeaseState&) {}).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()), HasSubstr(manager.address()));
  // Nobody would give it back otherwise.
  EXPECT_EQ(released.get(), 7u);
}

TEST(ResourceManager, NobodyThereIsASentence) {
  WorkerRegistration::Options options;
  options.manager = "127.0.0.1:1";
  options.timeout = milliseconds(300);
  const auto worker = WorkerRegistration::Join(std::move(options));
  ASSERT_FALSE(worker.ok());
  EXPECT_THAT(std::string(worker.status().message()), HasSubstr("--resource_manager_address"));
}

TEST(ResourceManager, PortInUseIsASentence) {
  auto server = StartServer();
  ResourceManagerOptions options;
  options.port = server->port();
  const auto second = ResourceManagerServer::Start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(ResourceManager, ListensAtAnIpV6Address) {
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  const bool here = bind(probe, reinterpret_cast<const sockaddr*>(&loopback), sizeof(loopback)) == 0;
  close(probe);
  if (!here) GTEST_SKIP() << "this machine has no ::1";
  ResourceManagerOptions options;
  options.bind = "::1";
  auto server = ResourceManagerServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client =
      ResourceManagerClient::Connect("grpc://[::1]:" + std::to_string((*server)->port()), milliseconds(20000));
  EXPECT_TRUE(client.ok()) << client.status();
}

TEST(ResourceManager, ListsDeclaredSlicesBeforeAnyWorker) {
  auto server = StartServer(3);
  auto client = Client(*server);
  const auto slices = client->Slices();
  ASSERT_TRUE(slices.ok());
  EXPECT_EQ(slices->size(), 3u);
  EXPECT_FALSE(slices->at(0).whole());
}

TEST(ResourceManager, OwnEndIsNoLoss) {
  auto server = StartServer();
  bool lost = false;
  auto client = Client(*server);
  client->WatchLosses([&](const absl::Status&) { lost = true; });
  client.reset();
  EXPECT_FALSE(lost);
}

TEST(ResourceManager, AManagersEndTakesTheLeasesAndTheNextOneGivesNewOnes) {
  auto server = StartServer();
  auto owned = Client(*server);
  ResourceManagerClient& client = *owned;
  std::promise<absl::Status> lost;
  client.WatchLosses([&, told = false](const absl::Status& status) mutable {
    // Perhaps again: it tries anew while the server stops.
    if (!std::exchange(told, true)) lost.set_value(status);
  });
  client.AnnounceDoor("10.0.0.7:29000");
  const std::string cluster = client.cluster_id();
  const auto lease = client.Acquire({{}, "test"}, [](const LeaseState&) {});
  ASSERT_TRUE(lease.ok());
  const uint64_t epoch = client.Homes()->at(0).epoch;
  ResourceManagerOptions options;
  options.cluster = {1, "cpu:1x2"};
  options.port = server->port();
  server.reset();
  EXPECT_EQ(lost.get_future().get().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.Slices().status().message()), HasSubstr("keeps trying"));

  auto next = ResourceManagerServer::Start(options);
  ASSERT_TRUE(next.ok()) << next.status();
  absl::StatusOr<LeaseId> again = absl::UnknownError("");
  for (int i = 0; i < 4000 && !again.ok(); ++i) {
    again = client.Acquire({{}, "test"}, [](const LeaseState&) {});
    std::this_thread::sleep_for(milliseconds(5));  // until the client has tried anew
  }
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(client.cluster_id(), cluster);
  client.Release(*lease);  // the old manager's: nobody's any more
  const auto homes = client.Homes();
  ASSERT_TRUE(homes.ok());
  ASSERT_EQ(homes->size(), 1u);
  EXPECT_EQ(homes->at(0).slice, "slice0");
  EXPECT_EQ(homes->at(0).door, "10.0.0.7:29000");  // told again
  EXPECT_TRUE(homes->at(0).shared);
  EXPECT_GT(homes->at(0).epoch, epoch);
}

TEST(ResourceManager, AClientThatLooksForItsManagerCanStop) {
  auto server = StartServer();
  auto client = Client(*server);
  server.reset();
  while (client->Slices().ok()) std::this_thread::yield();
  // Who listens now hears of it.
  absl::Status lost;
  while (lost.ok()) client->WatchLosses([&](const absl::Status& status) { lost = status; });
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  client.reset();
}

}  // namespace
}  // namespace switchtower
