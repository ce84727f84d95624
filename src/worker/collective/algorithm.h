// How each kind of collective moves and combines bytes: pure functions of a group's state, no threads, no I/O.
//
//   engine --Gather(phase, peer)--> message to a peer
//   messages of the peers --Apply(phase)--> results of the members here
//
// Place:    worker/collective; under the engine, over reduction.
// Threads:  stateless. Apply may run on several threads at once, each with its own `part`.
// Errors:   InvalidArgument if the program's shapes or run-time sizes are wrong; DataLoss if a peer's message is.
// Invariants: A-1 every result byte depends on the operands and on group positions alone, never on which ranks share a
//           process (S-8). A-2 nothing is read or written outside the buffers, whatever peers send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/group_plan.h"
#include "worker/collective/member_call.h"

namespace switchtower {

// The bytes of one message: pieces of members' buffers, in order. Buffers of its own hold what is made up.
class PieceList {
 public:
  // `blocks` times `size` bytes, one every `stride`.
  struct Piece {
    const char* data;
    size_t size;
    int64_t blocks;
    int64_t stride;
  };
  void Add(const char* data, int64_t size) { AddBlocks(data, size, 1, size); }
  void AddBlocks(const char* data, int64_t size, int64_t blocks, int64_t stride) {
    if (size <= 0 || blocks <= 0) return;
    if (size == stride) size *= std::exchange(blocks, 1);
    bytes_ += static_cast<size_t>(size * blocks);
    runs_ += static_cast<size_t>(blocks);
    pieces_.push_back({data, static_cast<size_t>(size), blocks, stride});
  }
  void AddOwned(std::string bytes) {
    owned_.push_back(std::move(bytes));
    Add(owned_.back().data(), static_cast<int64_t>(owned_.back().size()));
  }
  size_t bytes() const { return bytes_; }
  // Contiguous stretches of memory.
  size_t runs() const { return runs_; }
  bool has_owned() const { return !owned_.empty(); }
  absl::Span<const Piece> pieces() const { return pieces_; }

 private:
  absl::InlinedVector<Piece, 8> pieces_;
  std::deque<std::string> owned_;
  size_t bytes_ = 0;
  size_t runs_ = 0;
};

// Buffers of one rank here, in the order of plan.local().
struct MemberBuffers {
  absl::Span<const char* const> operands;
  absl::Span<char* const> results;
};

struct ExchangeView {
  const GroupPlan& plan;
  const CollectiveShape& shape;
  absl::InlinedVector<MemberBuffers, 8> members;
  // By process index; empty for this process and those that send nothing in the phase.
  absl::InlinedVector<std::string_view, 8> received;
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // Checks that the shape makes sense for a group of `size`, so that the other methods need not.
  virtual absl::Status Validate(const CollectiveShape& shape, int size) const = 0;
  virtual int phases(const CollectiveShape& shape, const GroupPlan& plan) const = 0;
  virtual bool Sends(const CollectiveShape& shape, const GroupPlan& plan, int phase, int to) const { return true; }
  virtual bool Receives(const CollectiveShape& shape, const GroupPlan& plan, int phase, int from) const { return true; }
  virtual absl::Status Gather(const ExchangeView& view, int phase, int to, PieceList& pieces) const = 0;
  // What the message of `from` must have; nullopt if only Apply can tell.
  virtual std::optional<int64_t> ExpectedBytes(const CollectiveShape& shape, const GroupPlan& plan, int phase,
                                               int from) const = 0;
  // Does part `part` of `parts` of the phase's work. The parts are disjoint.
  virtual absl::Status Apply(const ExchangeView& view, int phase, int part, int parts) const = 0;
};

const Algorithm& FindAlgorithm(CollectiveKind kind);

// Up to this many bytes of operands, and between two processes, an all-reduce is one phase in which every process folds
// everything; else each folds its own part of the elements and hands it out. The bits are the same.
inline constexpr int64_t kSmallReduceBytes = 64 * 1024;

}  // namespace switchtower
