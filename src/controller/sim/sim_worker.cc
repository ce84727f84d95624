#include "controller/sim/sim_worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace switchtower {

int64_t SimFabric::DurationOf(const std::string& program) {
  auto it = options.durations_ns.find(program);
  auto duration =
      static_cast<double>(it != options.durations_ns.end() ? it->second : 1'000 * (1 + SimNumberOf(program) % 200));
  if (options.duration_jitter > 0) {
    duration *=
        std::uniform_real_distribution<double>(1 - options.duration_jitter, 1 + options.duration_jitter)(random);
  }
  return static_cast<int64_t>(duration);
}

// An entry of the store. It holds memory while somebody can still use it: under a name, or in a queued launch.
struct SimWorker::Buffer {
  SimWords words;
  absl::Status error;
  bool filled = false;
  int names = 0;
  int uses = 0;  // by launches that haven't ended
  Device* device = nullptr;
  int64_t bytes = 0;
  bool held = false;
  std::vector<absl::AnyInvocable<void()>> waiters;
};

struct SimWorker::Device {
  int32_t ordinal = 0;
  std::deque<std::shared_ptr<Task>> queue;
  std::shared_ptr<Task> current;
  int64_t memory = 0;
  DeviceUse use;
};

struct SimWorker::LaunchHere {
  LaunchId id;
  SessionId session;
  std::string program;
  std::vector<PhysicalDevice> ranks;
  std::vector<std::shared_ptr<Task>> tasks;
  size_t open = 0;
  bool failed = false;
};

struct SimWorker::Task {
  std::shared_ptr<LaunchHere> launch;
  int rank = 0;
  int32_t ordinal = 0;
  std::vector<BufferPtr> arguments;
  std::vector<bool> takes;  // the argument's buffer
  std::vector<BufferPtr> results;
  int64_t started_ns = -1;
  bool ended = false;
};

// The ranks of a launch that have come to its collective.
struct SimFabric::Meeting {
  std::map<int, std::pair<SimWorker*, std::shared_ptr<SimWorker::Task>>> ranks;
  bool complete = false;

  // Each rank's results, from the whole arrays that the ranks' arguments make up.
  void Finish() {
    const size_t size = ranks.size();
    const SimWorker::Task& first = *ranks.begin()->second.second;
    std::vector<SimWords> whole(first.arguments.size());
    for (const auto& [rank, member] : ranks) {
      for (size_t a = 0; a < whole.size(); ++a) {
        const SimWords& part = member.second->arguments[a]->words;
        whole[a].insert(whole[a].end(), part.begin(), part.end());
      }
    }
    std::vector<SimWords> results;
    for (size_t r = 0; r < first.results.size(); ++r) {
      const auto elements = static_cast<size_t>(first.results[r]->bytes) / sizeof(uint32_t) * size;
      results.push_back(SimResult(first.launch->program, whole, r, elements));
    }
    size_t index = 0;
    for (const auto& [rank, member] : std::exchange(ranks, {})) {
      std::vector<SimWords> parts;
      for (const SimWords& result : results) {
        const auto begin = result.begin() + static_cast<ptrdiff_t>(result.size() / size * index);
        parts.emplace_back(begin, begin + static_cast<ptrdiff_t>(result.size() / size));
      }
      ++index;
      member.first->End(member.second, std::move(parts), absl::OkStatus());
    }
  }
};

struct SimWorker::Stream {
  std::string bytes;
  absl::Status error;
  bool ended = false;
  std::vector<BufferPtr> targets;
};

// A shard that is put together from pieces. They may come before the command.
struct SimWorker::Inbound {
  BufferPtr target;  // null: not told yet
  std::vector<std::pair<Box, SimWords>> pieces;
  absl::Status error;
  size_t arrived = 0, expected = 0;
  int64_t elements = 0;
};

class SimWorker::Channel : public WorkerChannel {
 public:
  explicit Channel(SimWorker& worker) : worker_(&worker) { worker.channel_ = this; }
  ~Channel() override { Close(); }
  void Start(Handlers handlers) override { worker_->handlers_ = std::move(handlers); }
  void Send(std::shared_ptr<const SharedCommand> command) override {
    if (worker_ == nullptr) return;
    SimFabric& fabric = worker_->fabric_;
    // A message doesn't overtake another on its way.
    worker_->last_delivery_ns_ = std::max(worker_->last_delivery_ns_, fabric.loop.now_ns() + fabric.Latency());
    fabric.loop.At(worker_->last_delivery_ns_,
                   [worker = worker_, command = std::move(command)] { worker->Take(command->command()); });
  }
  size_t queued_bytes() const override { return 0; }
  void Close() override {
    if (worker_ == nullptr) return;
    worker_->channel_ = nullptr;
    worker_->handlers_ = {};
    worker_ = nullptr;
  }

 private:
  friend class SimWorker;
  SimWorker* worker_;
};

SimWorker::SimWorker(SimFabric& fabric, WorkerId id, int32_t devices) : fabric_(fabric), id_(id) {
  for (int32_t ordinal = 0; ordinal < devices; ++ordinal) {
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->ordinal = ordinal;
  }
  fabric_.workers[id] = this;
}

SimWorker::~SimWorker() {
  if (channel_ != nullptr) channel_->Close();
  fabric_.workers.erase(id_);
}

std::unique_ptr<WorkerChannel> SimWorker::NewChannel() { return std::make_unique<Channel>(*this); }

void SimWorker::Take(const WorkerCommand& command) {
  std::visit([&](const auto& one) { Do(one); }, command);
}

const SimWorker::DeviceUse& SimWorker::use(int32_t ordinal) const { return devices_[ordinal]->use; }

void SimWorker::ResetUse() {
  for (const auto& device : devices_) device->use = DeviceUse{};
}

size_t SimWorker::queued() const {
  size_t queued = 0;
  for (const auto& device : devices_) queued += device->queue.size() + (device->current != nullptr ? 1 : 0);
  return queued;
}

std::string SimWorker::Describe() const {
  std::string text;
  for (const auto& device : devices_) {
    text += fmt::format("worker {} device {}: ", id_.value, device->ordinal);
    if (device->current != nullptr) {
      text +=
          fmt::format("rank {} of launch {} waits for its gang, ", device->current->rank, device->current->launch->id);
    }
    text += fmt::format("{} queued\n", device->queue.size());
  }
  return text;
}

void SimWorker::Emit(WorkerEvent event) {
  last_event_ns_ = std::max(last_event_ns_, fabric_.loop.now_ns() + fabric_.Latency());
  fabric_.loop.At(last_event_ns_, [this, event = std::move(event)]() mutable {
    if (handlers_.on_event) handlers_.on_event(std::move(event));
  });
}

void SimWorker::Hold(Buffer& buffer) {
  if (buffer.held || buffer.names + buffer.uses == 0) return;
  buffer.held = true;
  Device& device = *buffer.device;
  device.memory += buffer.bytes;
  device.use.memory_peak = std::max(device.use.memory_peak, device.memory);
  if (fabric_.options.device_memory > 0 && device.memory > fabric_.options.device_memory) {
    fabric_.faults.push_back(
        fmt::format("worker {} device {} holds {} bytes", id_.value, device.ordinal, device.memory));
  }
}

void SimWorker::LetGo(Buffer& buffer) {
  if (!std::exchange(buffer.held, false)) return;
  buffer.device->memory -= buffer.bytes;
}

void SimWorker::Settle(Buffer& buffer) {
  if (buffer.names + buffer.uses == 0) LetGo(buffer);
}

SimWorker::BufferPtr SimWorker::Find(ArrayKey array, int32_t ordinal) {
  if (auto it = store_.find(array); it != store_.end()) {
    if (auto entry = it->second.find(ordinal); entry != it->second.end()) return entry->second;
  }
  fabric_.faults.push_back(fmt::format("array {} isn't on worker {} device {}", array.array.value, id_.value, ordinal));
  auto missing = std::make_shared<Buffer>();
  missing->device = devices_[ordinal].get();
  missing->filled = true;
  missing->error = absl::InternalError("no such array");
  return missing;
}

void SimWorker::Name(ArrayKey array, int32_t ordinal, BufferPtr buffer) {
  Unname(array, ordinal);
  ++buffer->names;
  store_[array][ordinal] = std::move(buffer);
}

void SimWorker::Unname(ArrayKey array, int32_t ordinal) {
  auto it = store_.find(array);
  if (it == store_.end()) return;
  if (auto entry = it->second.find(ordinal); entry != it->second.end()) {
    --entry->second->names;
    Settle(*entry->second);
    it->second.erase(entry);
  }
  if (it->second.empty()) store_.erase(it);
}

SimWorker::BufferPtr SimWorker::Promise(ArrayKey array, int32_t ordinal, int64_t bytes) {
  auto buffer = std::make_shared<Buffer>();
  buffer->device = devices_[ordinal].get();
  buffer->bytes = bytes;
  Name(array, ordinal, buffer);
  return buffer;
}

void SimWorker::Fill(const BufferPtr& buffer, SimWords words, absl::Status error) {
  if (buffer->filled) return;
  buffer->filled = true;
  buffer->words = std::move(words);
  buffer->error = std::move(error);
  if (!buffer->error.ok()) LetGo(*buffer);
  for (auto& waiter : std::exchange(buffer->waiters, {})) waiter();
  Advance(buffer->device->ordinal);
}

void SimWorker::Do(const Launch& command) {
  if (command.id <= newest_) fabric_.faults.push_back(fmt::format("launch {} came after {}", command.id, newest_));
  newest_ = command.id;
  auto launch = std::make_shared<LaunchHere>();
  launch->id = command.id;
  launch->session = command.session;
  launch->program = programs_.at(command.program);
  launch->ranks = gangs_.at(command.gang);
  launches_[command.id] = launch;
  for (size_t rank = 0; rank < launch->ranks.size(); ++rank) {
    if (launch->ranks[rank].worker != id_) continue;
    auto task = std::make_shared<Task>();
    task->launch = launch;
    task->rank = static_cast<int>(rank);
    task->ordinal = launch->ranks[rank].ordinal;
    for (ArrayId argument : command.arguments) {
      task->arguments.push_back(Find({command.session, argument}, task->ordinal));
      ++task->arguments.back()->uses;
    }
    task->takes.assign(command.arguments.size(), false);
    for (uint32_t index : command.donated) {
      task->takes[index] = task->arguments[index]->names == 1;
      auto donated = Promise({command.session, command.arguments[index]}, task->ordinal, 0);
      donated->filled = true;
      donated->error = absl::InvalidArgumentError("donated");
    }
    for (ArrayId result : command.results) {
      task->results.push_back(
          Promise({command.session, result}, task->ordinal, fabric_.result_bytes.at(launch->program)));
    }
    launch->tasks.push_back(task);
  }
  launch->open = launch->tasks.size();
  for (const auto& task : launch->tasks) devices_[task->ordinal]->queue.push_back(task);
  const std::vector<std::shared_ptr<Task>> tasks = launch->tasks;
  for (const auto& task : tasks) Advance(task->ordinal);
}

void SimWorker::Advance(int32_t ordinal) {
  Device& device = *devices_[ordinal];
  if (device.current != nullptr || device.queue.empty()) return;
  const auto ready = [](const std::shared_ptr<Task>& task) {
    return std::all_of(task->arguments.begin(), task->arguments.end(),
                       [](const BufferPtr& argument) { return argument->filled; });
  };
  std::vector<size_t> choices;
  const size_t looked_at = fabric_.options.per_device_choice ? device.queue.size() : 1;
  for (size_t i = 0; i < looked_at; ++i) {
    if (ready(device.queue[i])) choices.push_back(i);
  }
  if (choices.empty()) return;
  const size_t choice = choices.size() == 1
                            ? choices[0]
                            : choices[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(fabric_.random)];
  auto it = device.queue.begin() + static_cast<ptrdiff_t>(choice);
  device.current = std::move(*it);
  device.queue.erase(it);
  Start(device.current);
}

void SimWorker::Start(const std::shared_ptr<Task>& task) {
  task->started_ns = fabric_.loop.now_ns();
  for (const BufferPtr& argument : task->arguments) {
    if (argument->error.ok()) continue;
    Fail(*task->launch, argument->error, /*origin=*/true);
    return;
  }
  for (size_t i = 0; i < task->arguments.size(); ++i) {
    if (task->takes[i]) LetGo(*task->arguments[i]);
  }
  for (const BufferPtr& result : task->results) Hold(*result);
  std::shared_ptr<SimFabric::Meeting>& meeting = fabric_.meetings[task->launch->id];
  if (meeting == nullptr) meeting = std::make_shared<SimFabric::Meeting>();
  meeting->ranks[task->rank] = {this, task};
  if (meeting->ranks.size() < task->launch->ranks.size()) return;
  meeting->complete = true;
  const int64_t duration_ns = fabric_.DurationOf(task->launch->program), now_ns = fabric_.loop.now_ns();
  for (const auto& [rank, member] : meeting->ranks) {
    DeviceUse& use = member.first->devices_[member.second->ordinal]->use;
    if (use.first_start_ns < 0) use.first_start_ns = now_ns;
    use.busy_ns += duration_ns;
    use.last_end_ns = now_ns + duration_ns;
    ++use.launches;
    use.busy_ns_of[task->launch->session] += duration_ns;
  }
  fabric_.loop.After(duration_ns, [&fabric = fabric_, id = task->launch->id, meeting] {
    fabric.meetings.erase(id);
    meeting->Finish();
  });
}

void SimWorker::End(const std::shared_ptr<Task>& task, std::vector<SimWords> results, absl::Status error) {
  if (std::exchange(task->ended, true)) return;
  Device& device = *devices_[task->ordinal];
  if (device.current == task) {
    device.current.reset();
  } else {
    std::erase(device.queue, task);
  }
  for (const BufferPtr& argument : task->arguments) {
    --argument->uses;
    Settle(*argument);
  }
  for (size_t i = 0; i < task->results.size(); ++i) {
    Fill(task->results[i], error.ok() ? std::move(results[i]) : SimWords{}, error);
  }
  LaunchHere& launch = *task->launch;
  if (report_times_ && task->started_ns >= 0) {
    Emit(LaunchTimes{{{launch.id, task->ordinal, task->started_ns, fabric_.loop.now_ns()}}});
  }
  if (--launch.open == 0) {
    LaunchId completed;
    while (!launches_.empty() && launches_.begin()->second->open == 0) {
      completed = launches_.begin()->first;
      launches_.erase(launches_.begin());
    }
    if (completed != LaunchId{}) Emit(Watermark{completed});
  }
  Advance(task->ordinal);
}

void SimWorker::Fail(LaunchHere& launch, const absl::Status& cause, bool origin) {
  if (std::exchange(launch.failed, true)) return;
  Emit(LaunchFailed{launch.id, launch.session, cause, origin});
  auto meeting = fabric_.meetings.find(launch.id);
  if (meeting != fabric_.meetings.end() && meeting->second->complete) return;  // it runs, and ends by itself
  const std::vector<std::shared_ptr<Task>> tasks = launch.tasks;
  for (const auto& task : tasks) {
    if (meeting != fabric_.meetings.end()) meeting->second->ranks.erase(task->rank);
  }
  if (meeting != fabric_.meetings.end() && meeting->second->ranks.empty()) fabric_.meetings.erase(meeting);
  for (const auto& task : tasks) End(task, {}, cause);
}

void SimWorker::Do(const CancelLaunch& command) {
  auto it = launches_.find(command.launch);
  if (it == launches_.end() || it->second->open == 0) return;
  const std::shared_ptr<LaunchHere> launch = it->second;
  Fail(*launch, command.cause, /*origin=*/false);
}

void SimWorker::Do(const PutArray& command) {
  Stream& stream = streams_[command.stream];
  for (const PhysicalDevice& device : command.devices) {
    if (device.worker != id_) continue;
    BufferPtr buffer = Promise(command.array, device.ordinal, command.shard_shape.host_bytes());
    Hold(*buffer);
    stream.targets.push_back(std::move(buffer));
  }
}

void SimWorker::Do(const StreamChunk& command) {
  Stream& stream = streams_[command.stream];
  if (command.data != nullptr) stream.bytes += *command.data;
  if (!command.last) return;
  SimWords words(stream.bytes.size() / sizeof(uint32_t));
  if (!words.empty()) std::memcpy(words.data(), stream.bytes.data(), words.size() * sizeof(uint32_t));
  const std::vector<BufferPtr> targets = std::move(stream.targets);
  streams_.erase(command.stream);
  for (const BufferPtr& buffer : targets) Fill(buffer, words, command.error);
}

void SimWorker::Do(const BindArrays& command) {
  for (const BindArrays::Binding& binding : command.bindings) {
    if (binding.device.worker != id_) continue;
    const int32_t ordinal = binding.device.ordinal;
    Name({command.session, binding.to}, ordinal, Find({command.session, binding.from}, ordinal));
  }
}

void SimWorker::Do(const PutError& command) {
  for (const PhysicalDevice& device : command.devices) {
    if (device.worker == id_) Fill(Promise(command.array, device.ordinal, 0), {}, command.error);
  }
}

void SimWorker::Do(const TransferArray& command) {
  for (const TransferArray::Destination& destination : command.destinations) {
    if (destination.device.worker != id_) continue;
    const InboundKey key{command.id, destination.device.ordinal};
    Inbound& inbound = inbound_[key];
    inbound.target =
        Promise({command.session, command.to}, destination.device.ordinal, destination.shard_shape.host_bytes());
    Hold(*inbound.target);
    inbound.elements = destination.shard_shape.elements();
    for (const TransferArray::Piece& piece : command.pieces) {
      if (piece.destination == destination.device) ++inbound.expected;
    }
    TryFinish(key);
  }
  for (const TransferArray::Piece& piece : command.pieces) {
    if (piece.source.worker != id_) continue;
    BufferPtr source = Find({command.session, command.from}, piece.source.ordinal);
    auto send = [this, source, piece, id = command.id] {
      SimWords words;
      if (source->error.ok()) {
        const auto begin = source->words.begin() + piece.source_box.start[0];
        words.assign(begin, begin + piece.source_box.size[0]);
      }
      const int64_t delay_ns = piece.destination.worker == id_ ? 0 : fabric_.Latency();
      fabric_.loop.After(delay_ns, [&fabric = fabric_, piece, id, words = std::move(words), error = source->error] {
        auto to = fabric.workers.find(piece.destination.worker);
        if (to != fabric.workers.end())
          to->second->Piece(id, piece.destination.ordinal, piece.destination_box, words, error);
      });
    };
    if (source->filled) {
      send();
    } else {
      source->waiters.push_back(std::move(send));
    }
  }
}

void SimWorker::Piece(LaunchId transfer, int32_t ordinal, const Box& box, SimWords words, absl::Status error) {
  Inbound& inbound = inbound_[{transfer, ordinal}];
  if (inbound.error.ok()) inbound.error = std::move(error);
  inbound.pieces.emplace_back(box, std::move(words));
  ++inbound.arrived;
  TryFinish({transfer, ordinal});
}

void SimWorker::TryFinish(InboundKey key) {
  Inbound& inbound = inbound_[key];
  if (inbound.target == nullptr || inbound.arrived < inbound.expected) return;
  SimWords words(static_cast<size_t>(inbound.elements));
  for (const auto& [box, part] : inbound.pieces) {
    std::copy(part.begin(), part.end(), words.begin() + box.start[0]);
  }
  const BufferPtr target = std::move(inbound.target);
  const absl::Status error = std::move(inbound.error);
  inbound_.erase(key);
  Fill(target, std::move(words), error);
}

void SimWorker::Do(const ReadShard& command) {
  BufferPtr buffer = Find(command.array, command.device.ordinal);
  auto answer = [this, buffer, request = command.request] {
    std::string bytes(buffer->words.size() * sizeof(uint32_t), 0);
    if (!bytes.empty()) std::memcpy(bytes.data(), buffer->words.data(), bytes.size());
    Emit(ReadData{request, std::make_shared<const std::string>(std::move(bytes)), true, buffer->error});
  };
  if (buffer->filled) {
    answer();
  } else {
    buffer->waiters.push_back(std::move(answer));
  }
}

void SimWorker::Do(const AwaitReady& command) {
  struct Wait {
    std::vector<BufferPtr> buffers;
    size_t missing = 0;
  };
  auto wait = std::make_shared<Wait>();
  for (ArrayId array : command.arrays) {
    auto it = store_.find({command.session, array});
    if (it == store_.end()) continue;
    for (const auto& [ordinal, buffer] : it->second) wait->buffers.push_back(buffer);
  }
  const auto answer = [this, wait, request = command.request] {
    absl::Status status;
    for (const BufferPtr& buffer : wait->buffers) status.Update(buffer->error);
    wait->buffers.clear();
    Emit(Ready{request, std::move(status)});
  };
  for (const BufferPtr& buffer : wait->buffers) {
    if (buffer->filled) continue;
    ++wait->missing;
    buffer->waiters.push_back([wait, answer] {
      if (--wait->missing == 0) answer();
    });
  }
  if (wait->missing == 0) answer();
}

void SimWorker::Do(const DeleteArrays& command) {
  for (ArrayId array : command.arrays) {
    for (const auto& device : devices_) Unname({command.session, array}, device->ordinal);
  }
}

void SimWorker::Do(const EndSession& command) {
  std::vector<ArrayKey> arrays;
  for (const auto& [key, entries] : store_) {
    if (key.session == command.session) arrays.push_back(key);
  }
  for (const ArrayKey& array : arrays) {
    for (const auto& device : devices_) Unname(array, device->ordinal);
  }
}

}  // namespace switchtower
