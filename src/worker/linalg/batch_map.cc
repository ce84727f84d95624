#include "worker/linalg/batch_map.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace switchtower::linalg {
namespace {

// Some tens of microseconds of arithmetic: several times what waking a thread costs.
constexpr double kFlopsWorthAThread = 200'000;

// Shared with helpers that may begin after the call is over, so each holds it.
class Pieces {
 public:
  Pieces(int64_t count, int64_t size, BatchBody body) : count_(count), size_(size), body_(body) {}

  // Takes pieces until none is left.
  void Work() {
    for (;;) {
      int64_t begin;
      {
        MutexLock lock(mutex_);
        if (next_ >= count_) return;
        begin = next_;
        next_ += size_;
        ++running_;
      }
      absl::Status status = body_(begin, std::min(begin + size_, count_));
      MutexLock lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      if (--running_ == 0 && next_ >= count_) done_.NotifyAll();
    }
  }

  // After Work(): the pieces that others took.
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (running_ > 0) done_.Wait(mutex_);
    return status_;
  }

 private:
  const int64_t count_, size_;
  const BatchBody body_;
  Mutex mutex_;
  CondVar done_;
  int64_t next_ GUARDED_BY(mutex_) = 0;
  int64_t running_ GUARDED_BY(mutex_) = 0;
  absl::Status status_ GUARDED_BY(mutex_);
};

}  // namespace

int64_t PieceSize(int64_t count, double flops_each, int64_t threads) {
  if (threads <= 1 || static_cast<double>(count) * flops_each < kFlopsWorthAThread) return std::max<int64_t>(count, 1);
  const int64_t even = (count + threads - 1) / threads;
  const auto worth = static_cast<int64_t>(kFlopsWorthAThread / std::max(flops_each, 1.0));
  return std::max({even, worth, int64_t{1}});
}

absl::Status ForEachPiece(const xla::ffi::ThreadPool& pool, int64_t count, double flops_each, BatchBody body) {
  const int64_t size = PieceSize(count, flops_each, count > 1 ? pool.num_threads() : 1);
  if (size >= count) return count > 0 ? body(0, count) : absl::OkStatus();
  auto pieces = std::make_shared<Pieces>(count, size, body);
  xla::ffi::ThreadPool helpers = pool;
  for (int64_t piece = 1; piece < (count + size - 1) / size; ++piece) {
    helpers.Schedule([pieces] { pieces->Work(); });
  }
  pieces->Work();
  return pieces->Wait();
}

}  // namespace switchtower::linalg
