#include "controller/schedule/op_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace switchtower {

void OpQueue::Wait(Entry& entry, uint64_t blocker) {
  if (blocker == entry.arrival) return;
  auto it = entries_.find(blocker);
  if (it == entries_.end()) return;  // a reader that has left
  it->second.dependents.push_back(entry.arrival);
  ++entry.blockers;
}

void OpQueue::Read(Entry& entry, Touched& touched) {
  if (touched.writer != 0) Wait(entry, touched.writer);
  if (touched.readers.size() > 2 * touched.live_readers + 8) {
    std::erase_if(touched.readers, [&](uint64_t reader) { return !entries_.contains(reader); });
  }
  touched.readers.push_back(entry.arrival);
  ++touched.live_readers;
}

void OpQueue::Write(Entry& entry, Touched& touched) {
  if (touched.writer != 0) Wait(entry, touched.writer);
  for (uint64_t reader : touched.readers) Wait(entry, reader);
  touched.readers.clear();
  touched.live_readers = 0;
  touched.writer = entry.arrival;
}

OpQueue::Entry& OpQueue::Add(Op op, uint64_t arrival, bool in_turn) {
  CHECK(entries_.empty() || arrival > entries_.rbegin()->first);
  Entry& entry = entries_[arrival];
  entry.op = std::move(op);
  entry.arrival = arrival;
  entry.in_turn = in_turn;
  ForEachUse(entry.op, [&](Resource resource, bool writes) {
    Touched& touched = touched_[resource];
    ++touched.uses;
    if (writes) {
      Write(entry, touched);
    } else {
      Read(entry, touched);
    }
  });
  if (entry.free()) FreeOnes(entry)[arrival] = &entry;
  return entry;
}

bool OpQueue::Conflicts(const Op& op) const {
  bool conflicts = false;
  ForEachUse(op, [&](Resource resource, bool writes) {
    auto it = touched_.find(resource);
    conflicts |= it != touched_.end() && (writes || it->second.writer != 0);
  });
  return conflicts;
}

Op OpQueue::Remove(uint64_t arrival) {
  auto it = entries_.find(arrival);
  CHECK(it != entries_.end() && it->second.free());
  Entry entry = std::move(it->second);
  entries_.erase(it);
  FreeOnes(entry).erase(arrival);
  ForEachUse(entry.op, [&](Resource resource, bool writes) {
    auto found = touched_.find(resource);
    Touched& touched = found->second;
    if (writes) {
      if (touched.writer == arrival) touched.writer = 0;
    } else if (touched.writer == 0 || arrival > touched.writer) {
      --touched.live_readers;
    }
    if (--touched.uses == 0) touched_.erase(found);
  });
  for (uint64_t dependent : entry.dependents) {
    Entry& waiting = entries_.at(dependent);
    if (--waiting.blockers == 0) FreeOnes(waiting)[dependent] = &waiting;
  }
  return std::move(entry.op);
}

std::vector<Op> OpQueue::TakeAll() {
  std::vector<Op> ops;
  ops.reserve(entries_.size());
  for (auto& [arrival, entry] : entries_) ops.push_back(std::move(entry.op));
  entries_.clear();
  free_in_turn_.clear();
  free_at_once_.clear();
  touched_.clear();
  return ops;
}

}  // namespace switchtower
