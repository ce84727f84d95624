// The answers that a stream has to write, and which goes next: first what somebody may wait for, in the order in which
// it came; then what nobody waits for, which is held back until there is enough of it or Release is called.
//
//   Push --> awaited -------------------------------> Take
//      `---> held back --kBatch of them, or Release--^
//
// A client goes on without the answers to executions and destructions: they only end what it keeps of its request.
// Written one by one, each wakes the client and costs both sides more than the request did.
//
// Place:    frontdoor; pure, under SessionStream.
// Threads:  the caller's lock.
#pragma once

#include <cstddef>
#include <deque>

#include "frontdoor/replier.h"

namespace switchtower {

class AnswerQueue {
 public:
  static constexpr size_t kBatch = 64;

  void Push(IfrtResponse answer);
  // What is held back goes, too.
  void Release() { released_ = held_back_.size(); }

  // What all that is here takes, roughly.
  size_t bytes() const { return bytes_; }
  // There is one to be written now.
  bool due() const { return !awaited_.empty() || released_ > 0; }
  size_t due_count() const { return awaited_.size() + released_; }
  bool holds_back() const { return held_back_.size() > released_; }
  // Where one is due.
  IfrtResponse Take();
  void Clear();

 private:
  struct Answer {
    IfrtResponse response;
    size_t bytes = 0;
  };
  std::deque<Answer> awaited_;
  std::deque<Answer> held_back_;
  size_t bytes_ = 0;
  size_t released_ = 0;  // of these, the first
  bool pushed_ = false;
};

}  // namespace switchtower
