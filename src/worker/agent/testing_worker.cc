#include "worker/agent/testing_worker.h"

#include <cstring>
#include <future>
#include <utility>

#include <fmt/format.h>

namespace switchtower {

std::string AsBytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::vector<float> AsFloats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::shared_ptr<const std::string> Shared(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

void FakeCollectives::LaunchBegins(LaunchId launch, std::shared_ptr<const GangTable>) {
  MutexLock lock(mutex_);
  running_[launch] = std::nullopt;
}

void FakeCollectives::CancelLaunch(LaunchId launch, absl::Status cause) {
  MutexLock lock(mutex_);
  auto it = running_.find(launch);
  if (it != running_.end() && !it->second.has_value()) it->second = std::move(cause);
  changed_.NotifyAll();
}

void FakeCollectives::LaunchEnded(LaunchId launch) {
  MutexLock lock(mutex_);
  running_.erase(launch);
  ended_.push_back(launch);
}

void FakeCollectives::ForgetLost(WorkerId peer) {
  MutexLock lock(mutex_);
  forgotten_.push_back(peer);
}

absl::Status FakeCollectives::Block(const EngineUserData& data) {
  const LaunchId id = static_cast<const LaunchContext*>(data.data)->id;
  MutexLock lock(mutex_);
  ++blocked_;
  changed_.NotifyAll();
  while (!running_[id].has_value()) changed_.Wait(mutex_);
  --blocked_;
  return absl::InternalError(fmt::format("reworded: {}", running_[id]->ToString()));
}

void FakeCollectives::AwaitBlocked() {
  MutexLock lock(mutex_);
  while (blocked_ == 0) changed_.Wait(mutex_);
}

// While somebody blocks: one operation of the oldest launch, that rank 0 has come to.
std::vector<PendingCollective> FakeCollectives::Pending() const {
  MutexLock lock(mutex_);
  std::vector<PendingCollective> pending;
  if (blocked_ == 0) return pending;
  for (const auto& [id, cause] : running_) {
    if (cause.has_value()) continue;
    pending.push_back({id, 1, 0, 0, "all-reduce", {0}, {1}, std::chrono::steady_clock::now()});
    break;
  }
  return pending;
}

std::vector<LaunchId> FakeCollectives::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

std::vector<WorkerId> FakeCollectives::forgotten() const {
  MutexLock lock(mutex_);
  return forgotten_;
}

void TestController::Events::Add(WorkerEvent event) {
  MutexLock lock(mutex);
  if (auto* watermark_event = std::get_if<Watermark>(&event)) watermark = watermark_event->completed;
  if (auto* failed = std::get_if<LaunchFailed>(&event)) failures.push_back(*failed);
  if (auto* answer = std::get_if<Ready>(&event)) ready[answer->request.value] = answer->status;
  if (auto* times_event = std::get_if<LaunchTimes>(&event)) {
    times.insert(times.end(), times_event->spans.begin(), times_event->spans.end());
  }
  if (auto* stats_event = std::get_if<WorkerStats>(&event)) stats.push_back(*stats_event);
  if (auto* activity = std::get_if<WorkerActivity>(&event)) activities[activity->request.value] = *activity;
  if (auto* data = std::get_if<ReadData>(&event)) {
    ++chunks;
    std::string& bytes = partial[data->request.value];
    bytes += *data->data;
    if (data->last) {
      reads[data->request.value] = ReadData{data->request, Shared(std::move(bytes)), true, data->status};
    }
  }
  changed.NotifyAll();
}

bool TestController::Events::Wait(const std::function<bool()>& until) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!until()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    changed.WaitFor(mutex, left);
  }
  return true;
}

TestController::TestController(std::unique_ptr<WorkerChannel> channel) : channel_(std::move(channel)) {
  channel_->Start({[events = events_](WorkerEvent event) { events->Add(std::move(event)); },
                   [events = events_](absl::Status why) {
                     MutexLock lock(events->mutex);
                     events->closed = std::move(why);
                     events->changed.NotifyAll();
                   }});
}

void TestController::Send(WorkerCommand command) {
  channel_->Send(std::make_shared<const SharedCommand>(std::move(command)));
}

absl::Status TestController::Await(SessionId session, std::vector<ArrayId> arrays) {
  const uint64_t request = next_request_++;
  Send(AwaitReady{{request}, session, std::move(arrays)});
  MutexLock lock(events_->mutex);
  if (!events_->Wait([&] { return events_->ready.count(request) > 0; }))
    return absl::DeadlineExceededError("no answer");
  return events_->ready[request];
}

absl::StatusOr<std::string> TestController::Read(ArrayKey array, PhysicalDevice device,
                                                 std::optional<std::vector<int64_t>> strides) {
  const uint64_t request = next_request_++;
  Send(ReadShard{{request}, array, device, std::move(strides)});
  return AwaitRead(request);
}

absl::StatusOr<std::string> TestController::AwaitRead(uint64_t request) {
  MutexLock lock(events_->mutex);
  if (!events_->Wait([&] { return events_->reads.count(request) > 0; }))
    return absl::DeadlineExceededError("no answer");
  const ReadData& data = events_->reads[request];
  if (!data.status.ok()) return data.status;
  return *data.data;
}

bool TestController::AwaitWatermark(LaunchId id) {
  MutexLock lock(events_->mutex);
  return events_->Wait([&] { return events_->watermark >= id; });
}

std::optional<LaunchFailed> TestController::AwaitFailure(LaunchId id) {
  MutexLock lock(events_->mutex);
  std::optional<LaunchFailed> found;
  events_->Wait([&] {
    for (const LaunchFailed& failed : events_->failures) {
      if (failed.launch == id) found = failed;
    }
    return found.has_value();
  });
  return found;
}

std::optional<absl::Status> TestController::AwaitClosed() {
  MutexLock lock(events_->mutex);
  events_->Wait([&] { return events_->closed.has_value(); });
  return events_->closed;
}

std::optional<WorkerStats> TestController::AwaitStats(const std::function<bool(const WorkerStats&)>& accept) {
  MutexLock lock(events_->mutex);
  std::optional<WorkerStats> found;
  events_->Wait([&] {
    for (const WorkerStats& stats : events_->stats) {
      if (accept(stats)) found = stats;
    }
    return found.has_value();
  });
  return found;
}

std::vector<LaunchTimes::Span> TestController::times() const {
  MutexLock lock(events_->mutex);
  return events_->times;
}

WorkerActivity TestController::Activity() {
  const uint64_t request = next_request_++;
  Send(AskActivity{{request}});
  MutexLock lock(events_->mutex);
  events_->Wait([&] { return events_->activities.count(request) > 0; });
  return events_->activities[request];
}

std::vector<LaunchFailed> TestController::failures() const {
  MutexLock lock(events_->mutex);
  return events_->failures;
}

int TestController::chunks_read() const {
  MutexLock lock(events_->mutex);
  return events_->chunks;
}

TestCluster::TestCluster(int workers) {
  SetPeers peers;
  for (int i = 0; i < workers; ++i) {
    auto node = std::make_unique<Node>(network_.NewEndpoint());
    node->id = WorkerId{static_cast<uint64_t>(i + 1)};
    Worker::Parts parts{node->id, &node->engine, &node->router, &node->collectives};
    parts.cancel_grace = std::chrono::milliseconds(0);
    parts.on_stuck = [raw = node.get()](const absl::Status& status) { raw->stuck = status; };
    node->worker = std::make_unique<Worker>(std::move(parts));
    node->worker->Start();
    peers.peers.push_back({node->id, "in-process", {"in-process"}, "secret"});
    nodes_.push_back(std::move(node));
    nodes_.back()->controller = Connect(i);
  }
  SendAll(peers);
}

TestCluster::~TestCluster() {
  for (auto& node : nodes_) node->engine.Release();
  for (auto& node : nodes_) node->worker->Stop();
  for (auto& node : nodes_) node->controller = nullptr;
}

std::unique_ptr<TestController> TestCluster::Connect(int i) {
  InProcessLink link = MakeInProcessLink(pool_);
  nodes_[i]->worker->Attach(std::move(link.port));
  return std::make_unique<TestController>(std::move(link.channel));
}

int TestCluster::IndexOf(WorkerId id) const { return static_cast<int>(id.value) - 1; }

void TestCluster::SendAll(const WorkerCommand& command) {
  for (auto& node : nodes_) node->controller->Send(command);
}

void TestCluster::DefineGang(uint64_t gang, std::vector<PhysicalDevice> ranks) {
  SendAll(switchtower::DefineGang{{gang}, std::move(ranks)});
}

void TestCluster::Load(const std::string& program, uint32_t parameters, uint32_t results) {
  SendAll(LoadProgram{{program}, program, Shared(program), parameters, results});
}

void TestCluster::Put(uint64_t array, std::vector<PhysicalDevice> devices, const std::vector<float>& values) {
  const StreamId stream{next_stream_++};
  const std::string bytes = AsBytes(values);
  PutArray put;
  put.array = Key(array);
  put.devices = std::move(devices);
  put.shard_shape = Shape{DType::kF32, {static_cast<int64_t>(values.size())}};
  put.layout = Layout::Default(1);
  put.stream = stream;
  put.stream_bytes = bytes.size();
  SendAll(put);
  SendAll(StreamChunk{stream, Shared(bytes), true, 1, absl::OkStatus()});
}

void TestCluster::Launch(uint64_t number, const std::string& program, uint64_t gang, std::vector<uint64_t> arguments,
                         std::vector<uint64_t> results, std::vector<uint32_t> donated) {
  switchtower::Launch launch;
  launch.id = Id(number);
  launch.session = kSession;
  launch.program = {program};
  launch.gang = {gang};
  for (uint64_t id : arguments) launch.arguments.push_back({id});
  for (uint64_t id : results) launch.results.push_back({id});
  launch.donated = std::move(donated);
  SendAll(launch);
}

absl::StatusOr<std::vector<float>> TestCluster::ReadFloats(uint64_t array, PhysicalDevice device) {
  absl::StatusOr<std::string> bytes = controller(IndexOf(device.worker)).Read(Key(array), device);
  if (!bytes.ok()) return bytes.status();
  return AsFloats(*bytes);
}

absl::Status TestCluster::Status(uint64_t array, PhysicalDevice device) { return ReadFloats(array, device).status(); }

void TestCluster::Settle(int i) {
  // The answer comes behind all that was sent before; no entries: at once.
  (void)controller(i).Await(SessionId{0}, {});
}

}  // namespace switchtower
