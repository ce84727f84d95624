// A point in time of the plug-in: a transfer that ends, a buffer that gets its value, a finished execution.
//
// Place:    pjrt; returned by buffers and executables.
// Threads:  any method from any thread. A callback runs on a thread of the plug-in, or at once on the
//           caller's if the event has come: keep it short, post to where the work belongs.
// Lifetime: owns the plug-in's event. It may be destroyed while callbacks are still outstanding: they are
//           called all the same. A default constructed event is ready and OK.
// Errors:   what became of the operation (code and message as the plug-in gave them).
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace switchtower::pjrt {

namespace abi {
struct PJRT_Api;
struct PJRT_Event;
}  // namespace abi

class Event {
 public:
  Event() = default;
  Event(const abi::PJRT_Api* api, abi::PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  bool IsReady() const;
  // Blocks the calling thread.
  absl::Status Await() const;
  // Calls `callback` exactly once with the outcome.
  void OnReady(absl::AnyInvocable<void(absl::Status)> callback) const;

 private:
  void Reset();

  const abi::PJRT_Api* api_ = nullptr;
  abi::PJRT_Event* event_ = nullptr;
};

}  // namespace switchtower::pjrt
