// Decides when a session's stream is read on: requests that were read and not yet handled are bounded in
// number and bytes, and reading is held while the controller has enough launches in flight, requests enough uploads to
// wait for, or the client enough answers to read or downloads to fetch.
//
// Place:   frontdoor; pure, no clock, no stream.
// Threads: the caller's lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchtower {

class ReadGate {
 public:
  struct Limits {
    size_t requests = 256;
    size_t bytes = size_t{64} << 20;  // one request may exceed it alone
  };
  enum class Hold : uint8_t { kLaunches = 1, kUploads = 2, kAnswers = 4, kDownloads = 8 };
  explicit ReadGate(Limits limits) : limits_(limits) {}

  // Each returns true if the caller should start a read now; there is never more than one.
  bool OnRead(size_t bytes);
  bool OnHandled(size_t bytes);
  bool OnRelease(Hold hold);
  bool OnReleaseAll();

  // No read begins until the hold is released. False if it was there already.
  bool Place(Hold hold);

 private:
  bool Open() const { return holds_ == 0 && requests_ < limits_.requests && bytes_ < limits_.bytes; }
  bool StartIfWaiting();

  const Limits limits_;
  size_t requests_ = 0;
  size_t bytes_ = 0;
  uint8_t holds_ = 0;     // bits of Hold
  bool waiting_ = false;  // no read under way, the next one is due
};

}  // namespace switchtower
