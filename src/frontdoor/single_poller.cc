#include "frontdoor/single_poller.h"

#include <atomic>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "base/mutex.h"

namespace switchtower {
namespace {

// With more, gRPC has more than two threads that wait.
constexpr long kCoresMax = 5;

std::atomic<bool> exists{false};

}  // namespace

// The call, whose end stays on the thread that tells of it.
class SinglePoller::Stay : public grpc::ClientUnaryReactor {
 public:
  void Begin(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::GenericStub stub(channel);
    stub.PrepareUnaryCall(&context_, "/switchtower.SinglePoller/NobodyServesThis", {}, &request_, &response_, this);
    StartCall();
  }
  void End() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
    while (!done_) changed_.Wait(mutex_);
  }
  bool stays() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stays_;
  }

  void OnDone(const grpc::Status&) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    stays_ = true;
    while (!ending_) changed_.Wait(mutex_);
    done_ = true;
    changed_.NotifyAll();  // under the lock: with End's return this may end
  }

 private:
  grpc::ClientContext context_;
  grpc::Slice nothing_;
  grpc::ByteBuffer request_{&nothing_, 1}, response_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stays_ GUARDED_BY(mutex_) = false;
  bool ending_ GUARDED_BY(mutex_) = false;
  bool done_ GUARDED_BY(mutex_) = false;
};

std::unique_ptr<SinglePoller> SinglePoller::Create(grpc::Server& server, long cores) {
  if (cores > kCoresMax || exists.exchange(true)) return nullptr;
  return std::unique_ptr<SinglePoller>(new SinglePoller(server));
}

SinglePoller::SinglePoller(grpc::Server& server) : stay_(std::make_unique<Stay>()) {
  stay_->Begin(server.InProcessChannel({}));
}

SinglePoller::~SinglePoller() {
  stay_->End();
  exists = false;
}

bool SinglePoller::keeps() const { return stay_->stays(); }

}  // namespace switchtower
