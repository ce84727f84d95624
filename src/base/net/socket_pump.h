// Moves bytes between two sockets, both ways, unread. The end of either is the end of both, once what it had sent
// before has been passed on.
//
//   one --buffer--> other
//       <--buffer--
//
// Place:    base/net; knows nothing of what the bytes mean.
// Threads:  the loop's.
// Lifetime: owned; the destructor closes both sockets. `on_end` runs once at most and may destroy the pump.
// Errors:   none of its own: a socket that fails has ended.
// Invariants: P-1 at most one buffer is held each way: who doesn't read isn't read for.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/net/event_loop.h"
#include "base/net/unique_fd.h"

namespace switchtower {

class SocketPump {
 public:
  static constexpr size_t kBufferBytes = 64 * 1024;

  // Takes connected, nonblocking stream sockets.
  static absl::StatusOr<std::unique_ptr<SocketPump>> Create(EventLoop& loop, UniqueFd one, UniqueFd other, Task on_end);
  ~SocketPump();
  SocketPump(const SocketPump&) = delete;
  SocketPump& operator=(const SocketPump&) = delete;

 private:
  class End;
  SocketPump(EventLoop& loop, UniqueFd one, UniqueFd other, Task on_end);
  void Turn();
  absl::Status Watch();

  EventLoop& loop_;
  Task on_end_;
  const std::unique_ptr<End> one_, other_;
};

}  // namespace switchtower
