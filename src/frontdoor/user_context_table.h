// The client's user contexts (Python stacks, by id) that an answer of this session may still name.
//
// A client keeps the stack of each request until it is told that nobody here will name it; without these notices it
// grows with every call. A notice stands for one request, and travels with the next numbered answer.
//
//   request --Begin--> Ref: its Replier, the arrays it made, its launch --last one gone--> notice --Stamp--> answer
//
// An array's errors outlive it: what was launched before its end may still fail because of it. So its Ref moves to the
// youngest launch under way, and launches are let go in order.
//
// Place:    frontdoor; knows ids only.
// Threads:  any.
// Lifetime: Refs may outlive the table; their notices are then for nobody.
// Invariants: U-1 an id is noticed exactly as often as requests came with it, and not before the last Ref to it is
//           gone. U-2 numbered answers are 0, 1, 2, ... without a gap: the client acts on a notice only once it has let
//           go of all answers before. It does so at once with answers to what makes arrays; others it may keep for as
//           long as it lives (Init's), or never counts (those to what it batches). They get a number out of reach.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "xla/python/ifrt_proxy/common/ifrt_service.pb.h"

namespace switchtower {

class UserContextTable {
 public:
  class Context;
  using Ref = std::shared_ptr<Context>;
  struct Launch;

  UserContextTable();
  ~UserContextTable();

  // A request came with this id. Null for 0, which is none.
  Ref Begin(uint64_t id);

  // The array keeps `ref` until it is destructed. 0 is no array: one that the client gave no handle.
  void Own(uint64_t array, Ref ref) EXCLUDES(mutex_);
  void Destructed(absl::Span<const uint64_t> arrays) EXCLUDES(mutex_);

  // The launch keeps `ref` until it and all before it have ended.
  std::shared_ptr<Launch> BeginLaunch(Ref ref) EXCLUDES(mutex_);
  void EndLaunch(Launch& launch, const absl::Status& status) EXCLUDES(mutex_);

  // An error was told, and may be told again by what depends on it: the contexts of the last kRemembered are kept.
  void Remember(const absl::Status& error) EXCLUDES(mutex_);

  // Numbers an answer and gives it the notices that are due.
  void Stamp(xla::ifrt::proxy::ResponseMetadata* metadata);

  struct Counts {
    size_t contexts = 0;  // that may still be named
    size_t arrays = 0;    // that keep one
    size_t launches = 0;  // under way, or behind one that is
  };
  Counts counts() const EXCLUDES(mutex_);

  static constexpr size_t kRemembered = 256;
  static constexpr int64_t kUnnumbered = std::numeric_limits<int64_t>::max();

 private:
  class Notices;

  const std::shared_ptr<Notices> notices_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, Ref> arrays_ GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Launch>> launches_ GUARDED_BY(mutex_);  // in the order requested
  std::deque<Ref> remembered_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
