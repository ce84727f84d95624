// A whole controller over fake workers, a fake compiler and a fake resource manager. For tests of this folder.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/strand.h"
#include "controller/cluster/fake_worker.h"
#include "controller/sessions/controller_impl.h"
#include "controller/sessions/testing_programs.h"
#include "resource_manager/api/fake_cluster.h"

namespace switchtower {

class ControllerTest : public ::testing::Test {
 protected:
  // 2 slices of 1 host with 2 devices each: devices 0, 1 on s0 and 2, 3 on s1.
  ControllerTest() : rm(2, 1, 2) {}
  ~ControllerTest() override {
    sessions.clear();
    controller.reset();
  }

  static DeviceType Type() { return DeviceType{"cpu", "cpu", "x86", {"device", "pinned_host"}}; }
  ControllerImpl::Options Options() {
    ControllerImpl::Options options;
    options.pool = &pool;
    options.resource_manager = &rm;
    options.compiler = &compiler;
    options.connector = &connector;
    options.device_types = {Type()};
    return options;
  }
  void StartController(int64_t device_memory = 0) {
    ControllerImpl::Options options = Options();
    options.device_memory = device_memory;
    controller = std::make_unique<ControllerImpl>(std::move(options));
  }
  void AddWorkers() { ids = {rm.AddWorker(0, 0, Type()), rm.AddWorker(1, 0, Type())}; }
  absl::StatusOr<Session*> Open(const std::string& virtual_slices = "") {
    std::promise<absl::StatusOr<std::unique_ptr<Session>>> opened;
    controller->OpenSession({virtual_slices, "test"}, [&](absl::StatusOr<std::unique_ptr<Session>> session) {
      opened.set_value(std::move(session));
    });
    absl::StatusOr<std::unique_ptr<Session>> session = opened.get_future().get();
    if (!session.ok()) return session.status();
    sessions.push_back(*std::move(session));
    return sessions.back().get();
  }
  // Controller, two workers, a session on them.
  void StartAll(int64_t device_memory = 0) {
    AddWorkers();
    StartController(device_memory);
    session = *Open();
    workers = {connector.Await(ids[0]), connector.Await(ids[1])};
    Settle();
  }
  // What was submitted so far went through the sequencer, and so did what that posted at once: snapshots are taken
  // on its strand.
  ControllerSnapshot Settle() {
    TakeSnapshot();
    return TakeSnapshot();
  }
  ControllerSnapshot TakeSnapshot() {
    std::promise<ControllerSnapshot> taken;
    controller->Snapshot([&](ControllerSnapshot snapshot) { taken.set_value(std::move(snapshot)); });
    return taken.get_future().get();
  }
  uint64_t Compile(const std::string& name, const std::vector<uint64_t>& devices) {
    absl::StatusOr<CompileReply> reply = TryCompile(name, devices);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    return reply.ok() ? reply->executable : 0;
  }
  absl::StatusOr<CompileReply> TryCompile(const std::string& name, const std::vector<uint64_t>& devices) {
    std::promise<absl::StatusOr<CompileReply>> compiled;
    session->Compile(name, OptionsFor(devices), 5,
                     [&](absl::StatusOr<CompileReply> reply) { compiled.set_value(std::move(reply)); });
    return compiled.get_future().get();
  }
  absl::Status Put(uint64_t id, const ArraySpec& spec, uint64_t user_context = 0) {
    std::vector<HostShard> shards;
    for (int i = 0; i < spec.sharding.num_shards(); ++i) {
      const size_t bytes = static_cast<size_t>((*ShardShape(spec.sharding, spec.shape, i)).host_bytes());
      shards.push_back({{i}, std::make_shared<FullBuffer>(std::vector<std::string>{std::string(bytes, 'x')}), {}});
    }
    return session->MakeArray(ArrayId{id}, spec, std::move(shards), user_context);
  }
  absl::StatusOr<ExecuteReply> Execute(uint64_t executable, std::vector<uint64_t> arguments,
                                       std::vector<uint64_t> results, uint64_t user_context = 0,
                                       std::vector<uint32_t> non_donatable = {}) {
    ExecuteRequest request;
    request.executable = executable;
    for (uint64_t id : arguments) request.arguments.push_back(ArrayId{id});
    for (uint64_t id : results) request.results.push_back(ArrayId{id});
    request.user_context = user_context;
    request.non_donatable = std::move(non_donatable);
    return session->Execute(request, nullptr);
  }
  std::future<absl::Status> WhenReady(std::vector<uint64_t> ids) {
    auto ready = std::make_shared<std::promise<absl::Status>>();
    std::vector<ArrayId> arrays;
    for (uint64_t id : ids) arrays.push_back(ArrayId{id});
    session->WhenReady(arrays, [ready](absl::Status status) { ready->set_value(std::move(status)); });
    return ready->get_future();
  }
  absl::Status Ready(std::vector<uint64_t> ids) { return WhenReady(std::move(ids)).get(); }
  std::future<absl::StatusOr<std::string>> ReadLater(uint64_t id) {
    auto read = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    session->Read(ArrayId{id}, std::nullopt, [read](absl::StatusOr<std::vector<HostBuffer::Chunk>> chunks) {
      if (!chunks.ok()) {
        read->set_value(chunks.status());
        return;
      }
      std::string bytes;
      for (const HostBuffer::Chunk& chunk : *chunks) bytes += *chunk;
      read->set_value(std::move(bytes));
    });
    return read->get_future();
  }

  ThreadPool pool{"test", 3};
  FakeResourceManager rm;
  FakeConnector connector;
  FakeCompileService compiler;
  std::unique_ptr<ControllerImpl> controller;
  std::vector<std::unique_ptr<Session>> sessions;
  Session* session = nullptr;
  std::vector<WorkerId> ids;
  std::vector<std::shared_ptr<FakeWorker>> workers;
};

// The user context of an error, 0 if it has none.
inline uint64_t ContextOf(const absl::Status& status) {
  auto payload = status.GetPayload(kUserContextPayload);
  return payload.has_value() ? std::stoull(std::string(*payload)) : 0;
}

}  // namespace switchtower
