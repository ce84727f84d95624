// Tridiagonal systems with many right-hand sides: plain (gtsv), and with pivots moved away from zero, for inverse
// iteration (SolvePerturbed).
//
// The three diagonals have n elements each; the first of the lower and the last of the upper one are unused.
#include <algorithm>
#include <array>
#include <cmath>

#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

// `right` is the right-hand side; its batch and rows are those of the diagonals.
absl::StatusOr<MatrixBatch> CheckSystem(Dims lower, Dims diagonal, Dims upper, Dims right, Dims solution) {
  ASSIGN_OR_RETURN(const MatrixBatch b, Matrices("b", right));
  RETURN_IF_ERROR(CheckDims("dl", lower, right, {b.rows}));
  RETURN_IF_ERROR(CheckDims("d", diagonal, right, {b.rows}));
  RETURN_IF_ERROR(CheckDims("du", upper, right, {b.rows}));
  RETURN_IF_ERROR(CheckDims("the solution", solution, right, {b.rows, b.cols}));
  return b;
}

template <ffi::DataType kType>
struct TridiagonalSolve {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> dl, ffi::Buffer<kType> d, ffi::Buffer<kType> du,
                          ffi::Buffer<kType> b, ffi::ResultBuffer<kType> dl_out, ffi::ResultBuffer<kType> d_out,
                          ffi::ResultBuffer<kType> du_out, ffi::ResultBuffer<kType> b_out,
                          ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, CheckSystem(DimsOf(dl), DimsOf(d), DimsOf(du), DimsOf(b), DimsOf(b_out)));
    RETURN_IF_ERROR(CheckDims("the used-up dl", DimsOf(dl_out), DimsOf(b), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the used-up d", DimsOf(d_out), DimsOf(b), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the used-up du", DimsOf(du_out), DimsOf(b), {x.rows}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(b), {}));
    T* const lower = dl_out->typed_data();
    T* const diagonal = d_out->typed_data();
    T* const upper = du_out->typed_data();
    T* const right = b_out->typed_data();
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.rows == 0) return absl::OkStatus();
    CopyInto(lower, dl.typed_data(), x.count * x.rows);
    CopyInto(diagonal, d.typed_data(), x.count * x.rows);
    CopyInto(upper, du.typed_data(), x.count * x.rows);
    CopyInto(right, b.typed_data(), x.count * x.size());
    return ForEachPiece(pool, x.count, 5.0 * (static_cast<double>(x.size()) + x.rows), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i * x.rows;
        infos[i] =
            lapack::Gtsv<T>(x.rows, x.cols, lower + row + 1, diagonal + row, upper + row, right + i * x.size(), x.rows);
      }
      return absl::OkStatus();
    });
  }
};

// Gaussian elimination with row interchanges on one tridiagonal matrix, as LAPACK's lagtf does it, with the right-hand
// sides transformed along; then back substitution as lagts does it with JOB = -1: a pivot too small to divide by is
// moved by multiples of eps * max|U|, so that a singular system gives a huge but finite solution. lagts takes one
// right-hand side; here a pivot is moved for all of them at once, like jaxlib's.
template <typename T>
class PerturbedSolver {
 public:
  using R = lapack::Real<T>;

  // Room for one matrix, used for many.
  static absl::StatusOr<PerturbedSolver> Create(int rows, int cols) {
    ASSIGN_OR_RETURN(Scratch<Row> u, Scratch<Row>::Create(rows));
    ASSIGN_OR_RETURN(Scratch<T> right, Scratch<T>::Create(cols));
    return PerturbedSolver(rows, cols, std::move(u), std::move(right));
  }

  // `x` holds the right-hand sides and becomes the solution; column-major.
  void Solve(const T* lower, const T* diagonal, const T* upper, T* x) {
    Eliminate(lower, diagonal, upper, x);
    R largest(0);
    for (int k = 0; k < rows_; ++k) {
      for (const T& value : u_.get()[k]) largest = std::max(largest, std::abs(value));
    }
    const R step = std::numeric_limits<R>::epsilon() * largest;
    for (int k = rows_ - 1; k >= 0; --k) Substitute(k, step, x);
  }

 private:
  using Row = std::array<T, 3>;  // of U: the diagonal and the two above it

  PerturbedSolver(int rows, int cols, Scratch<Row> u, Scratch<T> right)
      : rows_(rows), cols_(cols), u_(std::move(u)), right_(std::move(right)) {}

  void Eliminate(const T* lower, const T* diagonal, const T* upper, T* x) {
    const auto above = [&](int k) { return k + 1 < rows_ ? upper[k] : T(0); };
    Row* const u = u_.get();
    u[0] = {diagonal[0], above(0), T(0)};
    R scale = std::abs(u[0][0]) + std::abs(u[0][1]);
    for (int k = 0; k + 1 < rows_; ++k) {
      const T below = lower[k + 1];
      u[k + 1] = {diagonal[k + 1], above(k + 1), T(0)};
      const R next_scale = std::abs(below) + std::abs(u[k + 1][0]) + std::abs(u[k + 1][1]);
      if (below == T(0)) {
        scale = next_scale;
        continue;
      }
      const R here = u[k][0] == T(0) ? R(0) : std::abs(u[k][0]) / scale;
      if (std::abs(below) / next_scale <= here) {
        const T factor = below / u[k][0];
        u[k + 1][0] -= factor * u[k][1];
        for (int j = 0; j < cols_; ++j) At(x, k + 1, j) -= factor * At(x, k, j);
        scale = next_scale;
      } else {
        const T factor = u[k][0] / below;
        const Row swapped = {below, u[k + 1][0], u[k + 1][1]};
        u[k + 1] = {u[k][1] - factor * swapped[1], -factor * swapped[2], T(0)};
        u[k] = swapped;
        for (int j = 0; j < cols_; ++j) {
          std::swap(At(x, k, j), At(x, k + 1, j));
          At(x, k + 1, j) -= factor * At(x, k, j);
        }
        scale = std::abs(u[k + 1][0]) + std::abs(u[k + 1][1]);
      }
    }
  }

  void Substitute(int k, R step, T* x) {
    const Row& u = u_.get()[k];
    R largest(0);
    for (int j = 0; j < cols_; ++j) {
      T value = At(x, k, j);
      if (k + 1 < rows_) value -= u[1] * At(x, k + 1, j);
      if (k + 2 < rows_) value -= u[2] * At(x, k + 2, j);
      right_.get()[j] = value;
      largest = std::max(largest, std::abs(value));
    }
    T pivot = u[0];
    const R scale = MakeDivisible(pivot, step, largest);
    for (int j = 0; j < cols_; ++j) At(x, k, j) = right_.get()[j] * scale * (T(1) / pivot);
  }

  // Moves or scales `pivot` until values up to `largest` divided by it are finite. Returns the factor by which they
  // must be scaled too. Ends: each move doubles the next one, and any pivot from 1 on will do.
  static R MakeDivisible(T& pivot, R step, R largest) {
    constexpr R kSafe = std::numeric_limits<R>::min();
    constexpr R kBig = R(1) / kSafe;
    step = std::copysign(std::max(step, kSafe), std::real(pivot));
    for (R size = std::abs(pivot); size < R(1); size = std::abs(pivot)) {
      const bool tiny = size < kSafe;
      if (tiny && size != R(0) && largest * kSafe <= size) {
        pivot *= kBig;
        return kBig;
      }
      if (!tiny && largest <= size * kBig) break;
      pivot += step;
      step *= R(2);
    }
    return R(1);
  }

  T& At(T* x, int row, int col) const { return x[int64_t{col} * rows_ + row]; }

  int rows_, cols_;
  Scratch<Row> u_;
  Scratch<T> right_;
};

struct PerturbedTridiagonalSolve {
  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Ret<ffi::AnyBuffer>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::AnyBuffer dl, ffi::AnyBuffer d, ffi::AnyBuffer du,
                          ffi::AnyBuffer b, ffi::Result<ffi::AnyBuffer> solution) {
    const ffi::DataType type = b.element_type();
    for (const ffi::AnyBuffer& buffer : {dl, d, du, *solution}) {
      if (buffer.element_type() != type) return absl::InvalidArgumentError("operands and result differ in type");
    }
    ASSIGN_OR_RETURN(const MatrixBatch x, CheckSystem(DimsOf(dl), DimsOf(d), DimsOf(du), DimsOf(b), DimsOf(solution)));
    if (x.size() == 0) return absl::OkStatus();
    switch (type) {
      case ffi::DataType::F32:
        return Compute<float>(pool, x, dl, d, du, b, solution);
      case ffi::DataType::F64:
        return Compute<double>(pool, x, dl, d, du, b, solution);
      case ffi::DataType::C64:
        return Compute<std::complex<float>>(pool, x, dl, d, du, b, solution);
      case ffi::DataType::C128:
        return Compute<std::complex<double>>(pool, x, dl, d, du, b, solution);
      default:
        return absl::InvalidArgumentError("the elements are neither floats nor complex numbers");
    }
  }

 private:
  template <typename T>
  static absl::Status Compute(const ffi::ThreadPool& pool, const MatrixBatch& x, const ffi::AnyBuffer& dl,
                              const ffi::AnyBuffer& d, const ffi::AnyBuffer& du, const ffi::AnyBuffer& b,
                              ffi::Result<ffi::AnyBuffer>& solution) {
    const auto* const lower = static_cast<const T*>(dl.untyped_data());
    const auto* const diagonal = static_cast<const T*>(d.untyped_data());
    const auto* const upper = static_cast<const T*>(du.untyped_data());
    auto* const out = static_cast<T*>(solution->untyped_data());
    CopyInto(out, static_cast<const T*>(b.untyped_data()), x.count * x.size());
    return ForEachPiece(pool, x.count, 20.0 * static_cast<double>(x.size()),
                        [&](int64_t begin, int64_t end) -> absl::Status {
                          ASSIGN_OR_RETURN(PerturbedSolver<T> solver, PerturbedSolver<T>::Create(x.rows, x.cols));
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t row = i * x.rows;
                            solver.Solve(lower + row, diagonal + row, upper + row, out + i * x.size());
                          }
                          return absl::OkStatus();
                        });
  }
};

}  // namespace

std::vector<NativeHandler> TridiagonalSolveHandlers() {
  std::vector<NativeHandler> handlers = HandlersOf<TridiagonalSolve>("gtsv", "gtsv");
  handlers.push_back(Handler<PerturbedTridiagonalSolve>("tridiagonal_solve_perturbed_ffi"));
  return handlers;
}

}  // namespace switchtower::linalg
