#include "pjrt/event.h"

#include <memory>
#include <utility>

#include "pjrt/call.h"

namespace switchtower::pjrt {
namespace {

using Callback = absl::AnyInvocable<void(absl::Status)>;

struct Pending {
  const abi::PJRT_Api* api;
  Callback callback;
};

void RunCallback(abi::PJRT_Error* error, void* user_arg) {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(user_arg));
  pending->callback(TakeStatus(pending->api, error));
}

}  // namespace

Event::Event(Event&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    Reset();
    api_ = other.api_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Event::~Event() { Reset(); }

void Event::Reset() {
  if (event_ == nullptr) return;
  auto args = MakeArgs<abi::PJRT_Event_Destroy_Args>();
  args.event = std::exchange(event_, nullptr);
  Call(api_, api_->PJRT_Event_Destroy, args).IgnoreError();
}

bool Event::IsReady() const {
  if (event_ == nullptr) return true;
  auto args = MakeArgs<abi::PJRT_Event_IsReady_Args>();
  args.event = event_;
  return Call(api_, api_->PJRT_Event_IsReady, args).ok() && args.is_ready;
}

absl::Status Event::Await() const {
  if (event_ == nullptr) return absl::OkStatus();
  auto args = MakeArgs<abi::PJRT_Event_Await_Args>();
  args.event = event_;
  return Call(api_, api_->PJRT_Event_Await, args);
}

void Event::OnReady(Callback callback) const {
  if (event_ == nullptr) {
    callback(absl::OkStatus());
    return;
  }
  auto pending = std::make_unique<Pending>(Pending{api_, std::move(callback)});
  auto args = MakeArgs<abi::PJRT_Event_OnReady_Args>();
  args.event = event_;
  args.callback = &RunCallback;
  args.user_arg = pending.release();  // RunCallback takes it
  const absl::Status status = Call(api_, api_->PJRT_Event_OnReady, args);
  if (!status.ok()) {
    // Refused: RunCallback won't be called.
    const std::unique_ptr<Pending> refused(static_cast<Pending*>(args.user_arg));
    refused->callback(status);
  }
}

}  // namespace switchtower::pjrt
