#include "worker/exec/host_puts.h"

#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/net/payload.h"
#include "worker/exec/strided_copy.h"

namespace switchtower {
namespace {
// Copies up to this size cost less than a change of thread.
constexpr uint64_t kInlineBytes = 64 * 1024;
}  // namespace

class HostPuts::Bytes {
 public:
  void Add(std::shared_ptr<const std::string> chunk) {
    if (chunk == nullptr || chunk->empty()) return;
    size_ += chunk->size();
    chunks_.push_back(std::move(chunk));
  }
  uint64_t size() const { return size_; }

  // All bytes in one place; fewer, if there is no memory for that. After the last Add; from any thread.
  std::string_view Flat(std::shared_ptr<const void>* owner) {
    std::call_once(once_, [this] {
      if (chunks_.size() == 1) {
        flat_ = *chunks_[0];
        owner_ = chunks_[0];
      } else {
        std::shared_ptr<char> memory = AllocateBytes(size_);
        if (memory == nullptr) return;
        size_t at = 0;
        for (auto& chunk : chunks_) {
          std::memcpy(memory.get() + at, chunk->data(), chunk->size());
          at += chunk->size();
          chunk = nullptr;  // a large array isn't to be here twice
        }
        flat_ = std::string_view(memory.get(), size_);
        owner_ = std::move(memory);
      }
      chunks_.clear();
    });
    *owner = owner_;
    return flat_;
  }

 private:
  std::vector<std::shared_ptr<const std::string>> chunks_;
  uint64_t size_ = 0;
  std::once_flag once_;
  std::string_view flat_;
  std::shared_ptr<const void> owner_;
};

HostPuts::HostPuts(WorkerId self, Engine& engine, BufferStore& store, std::shared_ptr<WorkQueue> io,
                   std::shared_ptr<HostTraffic> traffic)
    : self_(self), engine_(engine), store_(store), io_(std::move(io)), traffic_(std::move(traffic)) {}

absl::Status HostPuts::CheckBytes(const PutArray& command, uint64_t received) {
  const Shape& shape = command.shard_shape;
  // Nobody can know the size of strings before they are here.
  if (shape.dtype == DType::kString) return absl::OkStatus();
  if (received != command.stream_bytes) {
    return absl::DataLossError(fmt::format("host buffer ended after {} of {} bytes", received, command.stream_bytes));
  }
  int64_t needed = shape.host_bytes();
  if (command.byte_strides.has_value() && !AreDense(shape, *command.byte_strides)) {
    absl::StatusOr<int64_t> strided = StridedRegionBytes(shape, *command.byte_strides);
    if (!strided.ok()) return strided.status();
    needed = *strided;
  }
  if (received != static_cast<uint64_t>(needed)) {
    return absl::InvalidArgumentError(fmt::format("host buffer has {} bytes, an array of {} with its strides needs {}",
                                                  received, shape.ToString(), needed));
  }
  return absl::OkStatus();
}

void HostPuts::Put(PutArray command) {
  Job job;
  for (const PhysicalDevice& device : command.devices) {
    if (device.worker != self_) continue;
    job.targets.push_back({device.ordinal, store_.Promise(command.array, device.ordinal)});
  }
  job.command = std::move(command);
  const StreamId id = job.command.stream;
  Stream& stream = streams_[id];
  if (stream.bytes == nullptr) stream.bytes = std::make_shared<Bytes>();
  if (!stream.ended) {
    stream.waiting.push_back(std::move(job));
    return;
  }
  Serve(stream, std::move(job));
  DropIfServed(id);
}

void HostPuts::Chunk(StreamChunk chunk) {
  Stream& stream = streams_[chunk.stream];
  if (stream.bytes == nullptr) stream.bytes = std::make_shared<Bytes>();
  if (stream.ended) return;
  if (!stream.abandoned) stream.bytes->Add(std::move(chunk.data));
  if (!chunk.last && chunk.error.ok()) return;
  stream.ended = true;
  stream.error = chunk.error;
  stream.uses = chunk.uses;
  if (!stream.error.ok()) stream.bytes = std::make_shared<Bytes>();
  std::vector<Job> waiting = std::move(stream.waiting);
  for (Job& job : waiting) Serve(stream, std::move(job));
  DropIfServed(chunk.stream);
}

void HostPuts::Serve(Stream& stream, Job job) {
  ++stream.served;
  absl::Status status = stream.error.ok() ? CheckBytes(job.command, stream.bytes->size()) : stream.error;
  if (!status.ok()) return Fail(job, status);
  const uint64_t bytes = stream.bytes->size();
  traffic_->bytes_put.fetch_add(bytes * job.targets.size(), std::memory_order_relaxed);
  if (bytes <= kInlineBytes) return Make(engine_, std::move(job), stream.bytes);
  auto shared = std::make_shared<Job>(std::move(job));
  const bool posted =
      io_->Post([&engine = engine_, shared, bytes = stream.bytes] { Make(engine, std::move(*shared), bytes); });
  if (!posted) Fail(*shared, absl::CancelledError("the worker is stopping"));
}

void HostPuts::DropIfServed(StreamId id) {
  auto it = streams_.find(id);
  if (it != streams_.end() && it->second.ended && it->second.served >= it->second.uses) streams_.erase(it);
}

void HostPuts::Make(Engine& engine, Job job, std::shared_ptr<Bytes> bytes) {
  HostData host;
  const std::string_view flat = bytes->Flat(&host.owner);
  if (flat.size() < bytes->size()) {
    return Fail(job, absl::ResourceExhaustedError(
                         fmt::format("this worker's host has no memory for a host buffer of {} bytes", bytes->size())));
  }
  if (job.command.shard_shape.dtype == DType::kString) {
    auto kept = std::make_shared<const std::string>(flat);
    for (Target& target : job.targets) target.entry->FillBytes(kept);
    return;
  }
  host.data = flat.data();
  host.shape = job.command.shard_shape;
  if (job.command.byte_strides.has_value() && !AreDense(host.shape, *job.command.byte_strides)) {
    host.byte_strides = *job.command.byte_strides;
  }
  for (Target& target : job.targets) {
    absl::StatusOr<EngineBufferPtr> buffer =
        engine.FromHost(target.ordinal, job.command.memory_kind, host, job.command.layout);
    if (buffer.ok()) {
      target.entry->Fill(*std::move(buffer), nullptr);
    } else {
      target.entry->Fail(buffer.status());
    }
  }
}

void HostPuts::Fail(const Job& job, const absl::Status& cause) {
  for (const Target& target : job.targets) target.entry->Fail(cause);
}

void HostPuts::EndSession(SessionId session, const absl::Status& cause) {
  for (auto& [id, stream] : streams_) {
    const size_t before = stream.waiting.size();
    std::vector<Job> others;
    for (Job& job : stream.waiting) {
      if (job.command.array.session == session) {
        Fail(job, cause);
        ++stream.served;
      } else {
        others.push_back(std::move(job));
      }
    }
    stream.waiting = std::move(others);
    if (stream.waiting.size() < before && stream.waiting.empty()) {
      stream.abandoned = true;
      stream.bytes = std::make_shared<Bytes>();
    }
  }
}

void HostPuts::Describe(WorkerActivity* activity) const {
  for (const auto& [id, stream] : streams_) {
    for (const Job& job : stream.waiting) {
      if (activity->uploads.size() == kActivityEntriesMax) return;
      activity->uploads.push_back(
          {job.command.array.session, job.command.array.array, stream.bytes->size(), job.command.stream_bytes});
    }
  }
}

void HostPuts::Reset(const absl::Status& cause) {
  for (auto& [id, stream] : streams_) {
    for (const Job& job : stream.waiting) Fail(job, cause);
  }
  streams_.clear();
}

}  // namespace switchtower
