// What a handler must know before it gives pointers to a library that checks nothing: shapes that fit each other, sizes
// that fit LAPACK's 32-bit integers, attributes that are letters it knows.
//
// A program from outside may call a handler with any buffers and attributes. XLA guarantees that each buffer has the
// bytes that its shape says; all else is checked here, on dimensions alone and before anything is computed.
//
// Place:    worker/linalg, for the kernels alone.
// Threads:  pure functions.
// Errors:   InvalidArgument for shapes and attributes, ResourceExhausted for what LAPACK can't address or memory can't
//           hold. The messages name the operand.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace switchtower::linalg {

using Dims = absl::Span<const int64_t>;

// A batch of matrices, one after the other, each column-major: the layout that the lowering asks for.
struct MatrixBatch {
  int64_t count = 0;
  int rows = 0, cols = 0;

  int64_t size() const { return int64_t{rows} * cols; }
  int smaller() const { return rows < cols ? rows : cols; }
  int larger() const { return rows < cols ? cols : rows; }
  // Never 0, which LAPACK refuses.
  int leading() const { return rows < 1 ? 1 : rows; }
};

// The last two of `dims` are a matrix, those before it the batch.
absl::StatusOr<MatrixBatch> Matrices(std::string_view name, Dims dims);
absl::StatusOr<MatrixBatch> SquareMatrices(std::string_view name, Dims dims);

// `dims` must be the batch of `matrices` (its dimensions but the last two), followed by `tail`.
absl::Status CheckDims(std::string_view name, Dims dims, Dims matrices, std::initializer_list<int64_t> tail);

// An attribute that is one of LAPACK's letters.
absl::StatusOr<char> Letter(std::string_view name, uint8_t value, std::string_view allowed);

// `quantity` is something that LAPACK computes in 32 bits, where an overflow would corrupt memory.
absl::Status CheckAddressable(std::string_view routine, double quantity);

// The workspace for `query(T* answer)`, a call of LAPACK with LWORK -1; `minimum` is what its documentation asks for.
template <typename T, typename Query>
absl::StatusOr<int> WorkspaceSize(std::string_view routine, int64_t minimum, const Query& query) {
  RETURN_IF_ERROR(CheckAddressable(routine, static_cast<double>(minimum)));
  T answer{};
  if (query(&answer) != 0) {
    return absl::InternalError("a workspace query of LAPACK failed");
  }
  // A float holds large sizes only roughly: never believe one below the minimum.
  const double best = std::ceil(static_cast<double>(std::real(answer)));
  const double most = std::numeric_limits<int>::max();
  return static_cast<int>(std::fmin(std::fmax(best, static_cast<double>(minimum > 1 ? minimum : 1)), most));
}

// Uninitialised memory of a kernel.
template <typename T>
class Scratch {
 public:
  static absl::StatusOr<Scratch> Create(int64_t size) {
    const size_t bytes = sizeof(T) * static_cast<size_t>(size < 1 ? 1 : size);
    void* memory = ::operator new (bytes, std::align_val_t{64}, std::nothrow);
    if (memory == nullptr) return absl::ResourceExhaustedError("no memory for the workspace of a linear algebra call");
    return Scratch(static_cast<T*>(memory));
  }
  T* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  explicit Scratch(T* memory) : memory_(memory) {}
  std::unique_ptr<T, Free> memory_;
};

// Operand and result may be one buffer.
template <typename T>
void CopyInto(T* result, const T* operand, int64_t size) {
  if (result != operand && size > 0) std::memcpy(result, operand, sizeof(T) * static_cast<size_t>(size));
}

// Results that a routine leaves as they are when it fails or isn't asked for them: whatever memory held before belongs
// to somebody else.
template <typename T>
void Clear(T* result, int64_t size) {
  if (size > 0) std::memset(static_cast<void*>(result), 0, sizeof(T) * static_cast<size_t>(size));
}

}  // namespace switchtower::linalg
