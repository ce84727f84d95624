// Spreads the matrices of a batch over XLA's threads.
//
// The calling thread works too and never waits for a piece that nobody has begun: helpers that the pool runs late, or
// not before all is done, find nothing left. So a pool whose threads all sit in such calls makes progress.
//
// Place:    worker/linalg, for the kernels alone.
// Threads:  `body` runs on the calling thread and on up to num_threads() - 1 others at once.
// Lifetime: `body` isn't called after the return.
// Errors:   the first of the pieces'; the others still run.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/status_macros.h"
#include "worker/linalg/operands.h"
#include "xla/ffi/api/ffi.h"

namespace switchtower::linalg {

// Works on the matrices [begin, end).
using BatchBody = absl::FunctionRef<absl::Status(int64_t begin, int64_t end)>;

// How many matrices make a piece: enough to be worth a thread's attention, few enough to occupy all threads.
int64_t PieceSize(int64_t count, double flops_each, int64_t threads);

absl::Status ForEachPiece(const xla::ffi::ThreadPool& pool, int64_t count, double flops_each, BatchBody body);

// The same, `body(i, work)` for each matrix; `work` are `work_size` elements that a piece has to itself.
template <typename T, typename Body>
absl::Status ForEachMatrix(const xla::ffi::ThreadPool& pool, int64_t count, double flops_each, int64_t work_size,
                           const Body& body) {
  return ForEachPiece(pool, count, flops_each, [&](int64_t begin, int64_t end) -> absl::Status {
    ASSIGN_OR_RETURN(const Scratch<T> work, Scratch<T>::Create(work_size));
    for (int64_t i = begin; i < end; ++i) body(i, work.get());
    return absl::OkStatus();
  });
}

}  // namespace switchtower::linalg
