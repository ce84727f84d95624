#include "worker/exec/shard_reader.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/status_macros.h"
#include "worker/exec/host_read.h"
#include "worker/exec/strided_copy.h"

namespace switchtower {
namespace {
// Copies up to this size cost less than a change of thread.
constexpr int64_t kInlineBytes = 64 * 1024;
}  // namespace

struct ShardReader::Shared {
  Engine& engine;
  const std::shared_ptr<WorkQueue> io;
  const std::shared_ptr<HostTraffic> traffic;
  Mutex mutex;
  int large_reads GUARDED_BY(mutex) = 0;
  std::deque<std::shared_ptr<Job>> waiting GUARDED_BY(mutex);
};

class ShardReader::Job : public std::enable_shared_from_this<Job> {
 public:
  Job(std::shared_ptr<Shared> shared, const BufferEntryPtr& entry, ReadShard command,
      std::shared_ptr<ControllerPort> port)
      : shared_(std::move(shared)),
        pin_(std::make_shared<const EntryPin>(entry)),
        command_(std::move(command)),
        port_(std::move(port)) {}

  void Start() {
    pin_->entry()->OnReady([self = shared_from_this()](absl::Status status) {
      if (!status.ok()) return self->Fail(status);
      const EngineBufferPtr buffer = self->pin_->entry()->content().buffer;
      if (buffer == nullptr || buffer->shape().host_bytes() <= kInlineBytes) return self->Fetch();
      self->OnIo([self] { self->Fetch(); });
    });
  }

 private:
  void OnIo(Task task) {
    if (!shared_->io->Post(std::move(task))) Fail(absl::CancelledError("the worker is stopping"));
  }

  void Fail(const absl::Status& status) {
    port_->Send(ReadData{command_.request, std::make_shared<const std::string>(), /*last=*/true, status});
    pin_ = nullptr;
  }

  void Fetch() {
    ReadDense(shared_->engine, pin_, [self = shared_from_this()](absl::StatusOr<DenseBytes> host) {
      if (host.ok()) host = self->Arrange(*std::move(host));
      if (!host.ok()) return self->Fail(host.status());
      self->pin_ = nullptr;  // the bytes' owner keeps it where it must
      self->host_ = *std::move(host);
      self->shared_->traffic->bytes_read.fetch_add(self->host_.bytes.size(), std::memory_order_relaxed);
      if (self->host_.bytes.size() <= kChunkBytes) return self->SendAll();
      {
        MutexLock lock(self->shared_->mutex);
        if (self->shared_->large_reads == kLargeReads) {
          self->shared_->waiting.push_back(self);
          return;
        }
        ++self->shared_->large_reads;
      }
      self->OnIo([self] { self->Pump(); });
    });
  }

  // As they shall lie in the client's buffer.
  absl::StatusOr<DenseBytes> Arrange(DenseBytes host) {
    if (host.shape.dtype == DType::kString || !command_.byte_strides.has_value() ||
        AreDense(host.shape, *command_.byte_strides)) {
      return host;
    }
    ASSIGN_OR_RETURN(int64_t bytes, StridedRegionBytes(host.shape, *command_.byte_strides));
    auto region = std::make_shared<std::string>(static_cast<size_t>(bytes), '\0');
    SpreadStrided(host.bytes.data(), host.shape, *command_.byte_strides, region->data());
    return DenseBytes{*region, region, host.shape};
  }

  void SendAll() {
    port_->Send(
        ReadData{command_.request, std::make_shared<const std::string>(host_.bytes), /*last=*/true, absl::OkStatus()});
    host_ = {};
  }

  // One at a time (pumping_), so that chunks keep their order.
  void Pump() {
    while (true) {
      std::string_view chunk;
      bool last = false;
      {
        MutexLock lock(mutex_);
        if (in_port_ == kWindow) {
          pumping_ = false;
          return;
        }
        chunk = host_.bytes.substr(offset_, kChunkBytes);
        offset_ += chunk.size();
        last = offset_ == host_.bytes.size();
        ++in_port_;
      }
      port_->Send(ReadData{command_.request, std::make_shared<const std::string>(chunk), last, absl::OkStatus()},
                  [self = shared_from_this()] { self->Sent(); });
      if (last) return;
    }
  }

  void Sent() {
    bool all = false, refill = false;
    {
      MutexLock lock(mutex_);
      --in_port_;
      const bool done = offset_ == host_.bytes.size();
      all = done && in_port_ == 0;
      refill = !done && !pumping_;
      if (refill) pumping_ = true;
    }
    if (refill && !shared_->io->Post([self = shared_from_this()] { self->Pump(); })) {
      Fail(absl::CancelledError("the worker is stopping"));
      all = true;
    }
    if (all) Finish();
  }

  void Finish() {
    host_ = {};
    std::shared_ptr<Job> next;
    {
      MutexLock lock(shared_->mutex);
      if (shared_->waiting.empty()) {
        --shared_->large_reads;
      } else {
        next = std::move(shared_->waiting.front());
        shared_->waiting.pop_front();
      }
    }
    if (next != nullptr) next->OnIo([next] { next->Pump(); });
  }

  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<const EntryPin> pin_;
  const ReadShard command_;
  const std::shared_ptr<ControllerPort> port_;
  DenseBytes host_;
  Mutex mutex_;
  size_t offset_ GUARDED_BY(mutex_) = 0;
  int in_port_ GUARDED_BY(mutex_) = 0;
  bool pumping_ GUARDED_BY(mutex_) = true;
};

ShardReader::ShardReader(Engine& engine, std::shared_ptr<WorkQueue> io, std::shared_ptr<HostTraffic> traffic)
    : shared_(new Shared{engine, std::move(io), std::move(traffic), {}, 0, {}}) {}

void ShardReader::Read(const BufferEntryPtr& entry, ReadShard command, std::shared_ptr<ControllerPort> port) {
  std::make_shared<Job>(shared_, entry, std::move(command), std::move(port))->Start();
}

}  // namespace switchtower
