// Operations of one session that wait, and which of them could go now: those that no earlier one must precede.
//
//   L1: b = f(a)     L2: c = g(b)     L3: d = f(x)     delete a        free: L1, L3
//        '------------^                                  ^             after L1: L2, L3, delete a
//        '-----------------------------------------------'
//
// Two operations keep their order where one of them makes, takes over or deletes what the other touches. So those
// that are free may be sent in any order and the client can't tell.
//
// Place:    controller/schedule; pure.
// Threads:  the home strand.
// Invariants: O-1 work is in proportion to the arrays of the operations that come and go, not to the length of the
//           queue. O-2 a free operation stays free until it is removed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/schedule/op_traits.h"
#include "controller/schedule/ops.h"

namespace switchtower {

class OpQueue {
 public:
  struct Entry {
    Op op;
    uint64_t arrival = 0;                      // smaller came earlier, over all sessions
    bool in_turn = false;                      // the policy says when it goes
    size_t weight = 0;                         // in the session's flow, while it is queued
    std::vector<AdmissionLedger::Need> needs;  // only where memory is limited
    uint64_t tried_in = 0;                     // the sequencer's round in which it last couldn't go
    const char* waits_for = "";                // for people

    bool free() const { return blockers == 0; }

   private:
    friend class OpQueue;
    size_t blockers = 0;
    std::vector<uint64_t> dependents;  // arrivals; once for each thing in common
  };

  // `arrival` is larger than any before. The reference holds until the entry is removed.
  Entry& Add(Op op, uint64_t arrival, bool in_turn);
  // Whether the operation would have to wait for one that is queued.
  bool Conflicts(const Op& op) const;
  // Whether a queued operation touches the array.
  bool Uses(ArrayId array) const { return touched_.contains(Resource::Of(array)); }
  // A free one leaves; what waited only for it becomes free.
  Op Remove(uint64_t arrival);
  // All that is left, in the order of arrival.
  std::vector<Op> TakeAll();

  // By arrival.
  const std::map<uint64_t, Entry*>& free_in_turn() const { return free_in_turn_; }
  const std::map<uint64_t, Entry*>& free_at_once() const { return free_at_once_; }
  // The earliest; not of an empty queue.
  const Entry& front() const { return entries_.begin()->second; }
  // All, by arrival.
  const std::map<uint64_t, Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }

 private:
  // Who touches a resource. A writer waits for the readers before it, which are then forgotten.
  struct Touched {
    uint64_t writer = 0;            // the latest that is queued; 0: none
    std::vector<uint64_t> readers;  // since then; some may have left
    size_t live_readers = 0;        // of them
    size_t uses = 0;                // by queued operations
  };
  std::map<uint64_t, Entry*>& FreeOnes(const Entry& entry) { return entry.in_turn ? free_in_turn_ : free_at_once_; }
  void Wait(Entry& entry, uint64_t blocker);
  void Read(Entry& entry, Touched& touched);
  void Write(Entry& entry, Touched& touched);

  std::map<uint64_t, Entry> entries_;
  std::map<uint64_t, Entry*> free_in_turn_;
  std::map<uint64_t, Entry*> free_at_once_;
  absl::flat_hash_map<Resource, Touched> touched_;
};

}  // namespace switchtower
