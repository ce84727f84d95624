#include "scale/measured_controller.h"

#include <future>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace switchtower::bench {
namespace {

DeviceType SinkDeviceType() { return DeviceType{"cpu", "cpu", "x86", {"device"}}; }

}  // namespace

MeasuredController::MeasuredController(const Options& options)
    : size_(options.size), resource_manager_(1, options.size.workers, options.size.devices_per_worker) {
  for (int32_t host = 0; host < size_.workers; ++host) {
    resource_manager_.AddWorker(0, host, SinkDeviceType(), options.command_addresses);
  }
  ControllerImpl::Options controller;
  controller.pool = &pool_;
  controller.resource_manager = &resource_manager_;
  controller.compiler = &compiler_;
  controller.connector = options.connector;
  controller.device_memory = options.device_memory;
  controller.policy = options.policy;
  controller_ = std::make_unique<ControllerImpl>(std::move(controller));
  std::promise<absl::StatusOr<std::unique_ptr<Session>>> opened;
  controller_->OpenSession(
      {"", "bench"}, [&](absl::StatusOr<std::unique_ptr<Session>> session) { opened.set_value(std::move(session)); });
  absl::StatusOr<std::unique_ptr<Session>> session = opened.get_future().get();
  CHECK(session.ok());
  session_ = *std::move(session);
}

MeasuredController::~MeasuredController() {
  session_->Close(absl::OkStatus());
  session_.reset();
  controller_.reset();
}

uint64_t MeasuredController::Compile(const std::string& name, int parameters, int results) {
  compiler_.Register(
      name, TestProgram(name, static_cast<int>(size_.devices()), parameters, results, {}, {size_.devices() * 4}));
  std::vector<uint64_t> devices(size_.devices());
  std::iota(devices.begin(), devices.end(), 0);
  uint64_t handle = 0;
  session_->Compile(name, OptionsFor(devices), 0, [&](absl::StatusOr<CompileReply> reply) {
    CHECK(reply.ok());
    handle = reply->executable;
  });
  return handle;
}

void MeasuredController::Prepare(int arrays) {
  const uint64_t init = Compile("init", 0, arrays);
  step_ = Compile("step", arrays, arrays);
  ExecuteRequest request;
  request.executable = init;
  for (int i = 0; i < arrays; ++i) request.results.push_back(ArrayId{++last_array_});
  state_ = request.results;
  CHECK(session_->Execute(request, nullptr).ok());
  ++launches_;
}

void MeasuredController::Step(bool drops) {
  ExecuteRequest request;
  request.executable = step_;
  request.arguments = state_;
  request.results.reserve(state_.size());
  for (size_t i = 0; i < state_.size(); ++i) request.results.push_back(ArrayId{++last_array_});
  CHECK(session_->Execute(request, nullptr).ok());
  ++launches_;
  if (drops) CHECK(session_->Destruct(state_).ok());
  state_ = std::move(request.results);
}

void MeasuredController::AwaitBelow(size_t launches) {
  std::promise<void> below;
  session_->WhenBelow(launches + 1, [&] { below.set_value(); });
  below.get_future().get();
}

void MeasuredController::AwaitEnd() { AwaitBelow(0); }

void MeasuredController::AwaitState() {
  std::promise<absl::Status> ready;
  session_->WhenReady(state_, [&](absl::Status status) { ready.set_value(std::move(status)); });
  CHECK(ready.get_future().get().ok());
}

}  // namespace switchtower::bench
