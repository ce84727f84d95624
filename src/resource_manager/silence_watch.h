// Whether those who are found silent can be blamed. Not if the one who looks has stood still himself (his process was
// stopped, his machine suspended): what they said meanwhile lies unread, and is read until the next look.
//
// Place:   resource_manager; pure, no clock of its own.
// Threads: one owner.
#pragma once

#include <chrono>

namespace switchtower {

class SilenceWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Who is silent for longer than `timeout` is gone. Looks come much more often.
  explicit SilenceWatch(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // At each look. False: it comes too late to blame anybody. Never twice in a row, or a host that is always slow would
  // keep everybody for ever.
  bool CanBlame(Time now) {
    const bool late = now - last_look_ > timeout_ / 2;
    last_look_ = now;
    pardoned_ = late && !pardoned_;
    return !pardoned_;
  }

 private:
  const std::chrono::milliseconds timeout_;
  Time last_look_ = Time::max();  // none so far
  bool pardoned_ = false;
};

}  // namespace switchtower
