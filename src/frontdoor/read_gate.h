// Decides when a session's stream is read on: requests that were read and not yet handled are bounded in
// number and bytes, and reading stops while the controller has enough launches in flight.
//
// Place:   frontdoor; pure, no clock, no stream.
// Threads: the caller's lock.
#pragma once

#include <cstddef>

namespace switchtower {

class ReadGate {
 public:
  struct Limits {
    size_t requests = 256;
    size_t bytes = size_t{64} << 20;  // one request may exceed it alone
  };
  explicit ReadGate(Limits limits) : limits_(limits) {}

  // Each returns true if the caller should start a read now; there is never more than one.
  bool OnRead(size_t bytes);
  bool OnHandled(size_t bytes);
  bool OnResume();

  // Stops reading after the present read, until OnResume. False if it was stopped already.
  bool Stop();

 private:
  bool Open() const { return !stopped_ && requests_ < limits_.requests && bytes_ < limits_.bytes; }
  bool StartIfWaiting();

  const Limits limits_;
  size_t requests_ = 0;
  size_t bytes_ = 0;
  bool stopped_ = false;
  bool waiting_ = false;  // no read under way, the next one is due
};

}  // namespace switchtower
