#include "worker/store/buffer_entry.h"

#include <utility>

namespace switchtower {
namespace {

// Waits for the buffer's event and the producer's outcome; the outcome's error wins.
struct Join {
  explicit Join(StatusCallback callback) : callback(std::move(callback)) {}

  void Arrive(bool is_producer, const absl::Status& status) {
    absl::Status result;
    {
      MutexLock lock(mutex);
      if (!status.ok() && (is_producer || first.ok())) first = status;
      if (--missing > 0) return;
      result = first;
    }
    std::move(callback)(std::move(result));
  }

  Mutex mutex;
  int missing GUARDED_BY(mutex) = 2;
  absl::Status first GUARDED_BY(mutex);
  StatusCallback callback;
};

}  // namespace

void StoreUsage::Add(int64_t more_bytes, int64_t more_entries) {
  entries.fetch_add(more_entries, std::memory_order_relaxed);
  const int64_t now = bytes.fetch_add(more_bytes, std::memory_order_relaxed) + more_bytes;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  if (whole != nullptr) whole->Add(more_bytes, more_entries);
}

BufferEntry::BufferEntry(std::shared_ptr<StoreUsage> usage) : usage_(std::move(usage)) { usage_->Add(0, 1); }

BufferEntry::~BufferEntry() {
  usage_->Add(0, -1);
  MutexLock lock(mutex_);
  Account(0);
}

void BufferEntry::Account(int64_t bytes) {
  usage_->Add(bytes - accounted_bytes_, 0);
  accounted_bytes_ = bytes;
}

void BufferEntry::Fill(EngineBufferPtr buffer, std::shared_ptr<Outcome> producer) {
  Content content;
  content.buffer = std::move(buffer);
  content.producer = std::move(producer);
  FillWith(std::move(content));
}

void BufferEntry::FillBytes(std::shared_ptr<const std::string> bytes) {
  Content content;
  content.bytes = std::move(bytes);
  FillWith(std::move(content));
}

void BufferEntry::Fail(absl::Status cause) {
  Content content;
  content.error = std::move(cause);
  FillWith(std::move(content));
}

void BufferEntry::FillWith(Content content) {
  absl::InlinedVector<absl::AnyInvocable<void()>, 1> waiting;
  {
    MutexLock lock(mutex_);
    if (content_.filled()) return;
    if (content.buffer != nullptr) {
      Account(content.buffer->bytes());
    } else if (content.bytes != nullptr) {
      Account(static_cast<int64_t>(content.bytes->size()));
    }
    content_ = std::move(content);
    waiting.swap(waiting_);
  }
  for (auto& callback : waiting) std::move(callback)();
}

bool BufferEntry::filled() const {
  MutexLock lock(mutex_);
  return content_.filled();
}

BufferEntry::Content BufferEntry::content() const {
  MutexLock lock(mutex_);
  return content_;
}

void BufferEntry::OnFilled(absl::AnyInvocable<void()> callback) {
  {
    MutexLock lock(mutex_);
    if (!content_.filled()) {
      waiting_.push_back(std::move(callback));
      return;
    }
  }
  std::move(callback)();
}

void BufferEntry::OnReady(StatusCallback callback) {
  {
    MutexLock lock(mutex_);
    if (!content_.filled()) {
      // The entry outlives its own fill: whoever fills it holds it.
      waiting_.push_back([this, callback = std::move(callback)]() mutable { OnReady(std::move(callback)); });
      return;
    }
  }
  const Content content = this->content();
  if (!content.error.ok()) return std::move(callback)(content.error);
  if (content.buffer == nullptr) return std::move(callback)(absl::OkStatus());
  if (content.producer == nullptr) return content.buffer->OnReady(std::move(callback));
  // Both at once: the buffer may be donated before the producer's outcome is told.
  auto join = std::make_shared<Join>(std::move(callback));
  content.buffer->OnReady([join](absl::Status status) { join->Arrive(false, status); });
  content.producer->Then([join](const absl::Status& status) { join->Arrive(true, status); });
}

bool BufferEntry::TryTake() {
  MutexLock lock(mutex_);
  if (pins_ > 0 || taken_ || content_.buffer == nullptr) return false;
  taken_ = true;
  Account(0);
  return true;
}

EntryPin::EntryPin(BufferEntryPtr entry) : entry_(std::move(entry)) {
  MutexLock lock(entry_->mutex_);
  ++entry_->pins_;
}

EntryPin::~EntryPin() { Release(); }

EntryPin& EntryPin::operator=(EntryPin&& other) noexcept {
  if (this != &other) {
    Release();
    entry_ = std::move(other.entry_);
  }
  return *this;
}

void EntryPin::Release() {
  if (entry_ == nullptr) return;
  {
    MutexLock lock(entry_->mutex_);
    --entry_->pins_;
  }
  entry_ = nullptr;
}

}  // namespace switchtower
