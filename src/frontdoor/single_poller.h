// One thread of gRPC's instead of two that wait for messages, where two are too many.
//
// The callback API has at least two threads that wait for all connections of the process. Whichever finds something
// wakes the other, so that somebody waits on, before it looks at what it found: a wake-up of a thread ahead of each
// message. On a machine of few cores that thread takes one from those who have something to do. gRPC has no option for
// it; but a thread that is in a callback doesn't wait for messages, so one is kept in the callback of a call that this
// makes to its own server.
//
// Place:    frontdoor, in FrontDoor.
// Threads:  from one. No callback of this process may wait for another one's: they share a thread.
// Lifetime: the server outlives it; it ends before the server is shut down.
// Errors:   none. Where gRPC's threads are other ones, they go on waiting.
#pragma once

#include <memory>

#include <grpcpp/server.h>

namespace switchtower {

class SinglePoller {
 public:
  // Null where there are cores for both, or where this process has one already: the threads are the process'.
  static std::unique_ptr<SinglePoller> Create(grpc::Server& server, long cores);
  // Lets the thread go, and waits until it has gone.
  ~SinglePoller();
  SinglePoller(const SinglePoller&) = delete;
  SinglePoller& operator=(const SinglePoller&) = delete;

  // A thread is kept. For tests.
  bool keeps() const;

 private:
  class Stay;
  explicit SinglePoller(grpc::Server& server);
  const std::unique_ptr<Stay> stay_;
};

}  // namespace switchtower
