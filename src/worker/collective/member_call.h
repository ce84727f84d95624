// One rank's call of one collective, as a value: what the FFI handlers make and the engine matches.
//
// Place:    worker/collective; between the FFI handlers (or a test) and the engine.
// Threads:  values.
// Lifetime: buffers belong to the caller and stay valid until `done` was called.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "hlo/collective_calls.h"
#include "types/dtype.h"
#include "types/ids.h"
#include "worker/collective/group_plan.h"

namespace switchtower {

enum class CollectiveKind : uint8_t {
  kAllReduce = 1,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kAllToAllArray,
  kPermute,  // collective-permute and collective-broadcast: each position
             // copies from one
  kRaggedAllToAll,
};
std::string_view Name(CollectiveKind kind);

// Everything that all ranks of the group must agree on. Meaning of outer, chunk_bytes, row_bytes:
// hlo/collective_calls.h.
struct CollectiveShape {
  struct Buffer {
    DType dtype = DType::kInvalid;
    int64_t elements = 0;
    int64_t bytes() const { return elements * HostBytes(dtype); }
  };

  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReductionKind reduction = ReductionKind::kSum;
  absl::InlinedVector<Buffer, 4> operands;
  absl::InlinedVector<Buffer, 4> results;
  absl::InlinedVector<int64_t, 4> outer;
  absl::InlinedVector<int64_t, 4> chunk_bytes;
  int64_t row_bytes = 0;
  // kPermute: the position that a position copies from, -1: from none (zeros).
  absl::InlinedVector<int, 8> source_of;

  int64_t operand_bytes() const;
  int64_t result_bytes() const;
  // Equal shapes have equal fingerprints, on all workers of a build.
  uint64_t Fingerprint() const;
};

struct MemberCall {
  LaunchId launch;
  uint32_t op_id = 0;
  uint32_t iteration = 0;
  uint32_t group = 0;
  int position = 0;  // in plan
  std::shared_ptr<const GroupPlan> plan;
  CollectiveShape shape;
  absl::InlinedVector<const char*, 4> operands;
  absl::InlinedVector<char*, 4> results;
  // Called exactly once, from inside Join or later from any thread; must be quick.
  absl::AnyInvocable<void(absl::Status)> done;
};

}  // namespace switchtower
