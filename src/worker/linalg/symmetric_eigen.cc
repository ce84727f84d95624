// Symmetric and Hermitian matrices: eigenvalues and vectors (syevd, heevd), reduction to tridiagonal form (sytrd,
// hetrd).
#include <algorithm>

#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

template <ffi::DataType kType>
struct SymmetricEigen {
  using T = ffi::NativeType<kType>;
  using R = lapack::Real<T>;
  static constexpr ffi::DataType kReal = ffi::ToReal(kType);

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Attr<uint8_t>("uplo")
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kReal>>()
        .template Ret<ffi::Buffer<kInfo>>()
        .template Attr<uint8_t>("mode");
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t uplo, ffi::ResultBuffer<kType> vectors,
                          ffi::ResultBuffer<kReal> values, ffi::ResultBuffer<kInfo> info, uint8_t mode) {
    ASSIGN_OR_RETURN(const MatrixBatch x, SquareMatrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const char triangle, Letter("uplo", uplo, "LU"));
    ASSIGN_OR_RETURN(const char job, Letter("mode", mode, "NV"));
    RETURN_IF_ERROR(CheckDims("the vectors", DimsOf(vectors), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the values", DimsOf(values), DimsOf(a), {x.rows}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    T* const out = vectors->typed_data();
    R* const w = values->typed_data();
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.size() == 0) return absl::OkStatus();
    Clear(w, x.count * x.rows);
    CopyInto(out, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const Sizes sizes, FindSizes(job, triangle, x, out, w));
    const double n = x.rows;
    return ForEachPiece(pool, x.count, 9 * n * n * n, [&](int64_t begin, int64_t end) -> absl::Status {
      ASSIGN_OR_RETURN(const Scratch<T> work, Scratch<T>::Create(sizes.work));
      ASSIGN_OR_RETURN(const Scratch<R> reals, Scratch<R>::Create(sizes.reals));
      ASSIGN_OR_RETURN(const Scratch<int> integers, Scratch<int>::Create(sizes.integers));
      for (int64_t i = begin; i < end; ++i) {
        infos[i] = Decompose(job, triangle, x.rows, out + i * x.size(), w + i * x.rows, sizes, work.get(), reals.get(),
                             integers.get());
      }
      return absl::OkStatus();
    });
  }

 private:
  struct Sizes {
    int work, reals, integers;
  };

  // LAPACK documents them exactly. Only the first is worth asking for, since it grows with the block size.
  static absl::StatusOr<Sizes> FindSizes(char job, char triangle, const MatrixBatch& x, T* a, R* w) {
    const int64_t n = x.rows;
    const bool vectors = job == 'V';
    const int64_t reals = vectors ? 1 + 5 * n + 2 * n * n : n;
    int64_t minimum = vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1;
    if (lapack::kIsComplex<T>) minimum = vectors ? 2 * n + n * n : n + 1;
    RETURN_IF_ERROR(CheckAddressable("syevd", static_cast<double>(std::max(reals, minimum))));
    Sizes sizes{-1, static_cast<int>(reals), static_cast<int>(vectors ? 3 + 5 * n : 1)};
    ASSIGN_OR_RETURN(sizes.work, WorkspaceSize<T>("syevd", minimum, [&](T* work) {
                       R real;
                       int integer;
                       return Decompose(job, triangle, x.rows, a, w, {-1, -1, -1}, work, &real, &integer);
                     }));
    return sizes;
  }

  static int Decompose(char job, char triangle, int n, T* a, R* w, const Sizes& sizes, T* work, R* reals,
                       int* integers) {
    if constexpr (lapack::kIsComplex<T>) {
      return lapack::Syevd<T>(job, triangle, n, a, n, w, work, sizes.work, reals, sizes.reals, integers,
                              sizes.integers);
    } else {
      return lapack::Syevd<T>(job, triangle, n, a, n, w, work, sizes.work, integers, sizes.integers);
    }
  }
};

template <ffi::DataType kType>
struct Tridiagonalization {
  using T = ffi::NativeType<kType>;
  using R = lapack::Real<T>;
  static constexpr ffi::DataType kReal = ffi::ToReal(kType);

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Attr<uint8_t>("uplo")
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kReal>>()
        .template Ret<ffi::Buffer<kReal>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t uplo, ffi::ResultBuffer<kType> reduced,
                          ffi::ResultBuffer<kReal> diagonal, ffi::ResultBuffer<kReal> off_diagonal,
                          ffi::ResultBuffer<kType> taus, ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, SquareMatrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const char triangle, Letter("uplo", uplo, "LU"));
    const int off = std::max(x.rows - 1, 0);
    RETURN_IF_ERROR(CheckDims("the reduced a", DimsOf(reduced), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the diagonal", DimsOf(diagonal), DimsOf(a), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the off-diagonal", DimsOf(off_diagonal), DimsOf(a), {off}));
    RETURN_IF_ERROR(CheckDims("taus", DimsOf(taus), DimsOf(a), {off}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    RETURN_IF_ERROR(CheckAddressable("sytrd", 256.0 * x.rows));
    T* const out = reduced->typed_data();
    R* const d = diagonal->typed_data();
    R* const e = off_diagonal->typed_data();
    T* const tau = taus->typed_data();
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.size() == 0) return absl::OkStatus();
    CopyInto(out, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("sytrd", 1, [&](T* work) {
                       return lapack::Sytrd<T>(triangle, x.rows, out, x.rows, d, e, tau, work, -1);
                     }));
    const double n = x.rows;
    return ForEachMatrix<T>(pool, x.count, 4 * n * n * n / 3, lwork, [&](int64_t i, T* work) {
      infos[i] = lapack::Sytrd<T>(triangle, x.rows, out + i * x.size(), x.rows, d + i * x.rows, e + i * off,
                                  tau + i * off, work, lwork);
    });
  }
};

}  // namespace

std::vector<NativeHandler> SymmetricEigenHandlers() {
  return Joined(HandlersOf<SymmetricEigen>("syevd", "heevd"), HandlersOf<Tridiagonalization>("sytrd", "hetrd"));
}

}  // namespace switchtower::linalg
