// A modelled worker's arrays: names of buffers and the memory that they hold, how buffers are filled, moved and read.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "controller/sim/sim_worker.h"
#include "controller/sim/sim_worker_state.h"

namespace switchtower {

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
