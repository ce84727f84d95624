// QR: the factorisation (geqrf), with column pivoting (geqp3), its Q (orgqr), and products with Q (ormqr).
//
// Workspace: LAPACK multiplies a dimension by its block size, at most 64 plus the triangular factors, in 32 bits.
#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

constexpr double kBlockMax = 256;

double QrFlops(const MatrixBatch& x) { return 2.0 * static_cast<double>(x.size()) * x.smaller(); }

template <ffi::DataType kType>
struct Qr {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::ResultBuffer<kType> factors,
                          ffi::ResultBuffer<kType> taus) {
    ASSIGN_OR_RETURN(const MatrixBatch x, Matrices("a", DimsOf(a)));
    RETURN_IF_ERROR(CheckDims("the factors", DimsOf(factors), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("taus", DimsOf(taus), DimsOf(a), {x.smaller()}));
    RETURN_IF_ERROR(CheckAddressable("geqrf", kBlockMax * x.cols));
    if (x.size() == 0) return absl::OkStatus();
    T* const out = factors->typed_data();
    T* const tau = taus->typed_data();
    CopyInto(out, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("geqrf", x.cols, [&](T* work) {
                       return lapack::Geqrf<T>(x.rows, x.cols, out, x.leading(), tau, work, -1);
                     }));
    return ForEachMatrix<T>(pool, x.count, QrFlops(x), lwork, [&](int64_t i, T* work) {
      lapack::Geqrf<T>(x.rows, x.cols, out + i * x.size(), x.leading(), tau + i * x.smaller(), work, lwork);
    });
  }
};

template <ffi::DataType kType>
struct PivotedQr {
  using T = ffi::NativeType<kType>;
  using R = lapack::Real<T>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kInfo>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>()
        .template Ret<ffi::Buffer<kType>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::Buffer<kInfo> fixed,
                          ffi::ResultBuffer<kType> factors, ffi::ResultBuffer<kInfo> permutation,
                          ffi::ResultBuffer<kType> taus) {
    ASSIGN_OR_RETURN(const MatrixBatch x, Matrices("a", DimsOf(a)));
    RETURN_IF_ERROR(CheckDims("jpvt", DimsOf(fixed), DimsOf(a), {x.cols}));
    RETURN_IF_ERROR(CheckDims("the factors", DimsOf(factors), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the permutation", DimsOf(permutation), DimsOf(a), {x.cols}));
    RETURN_IF_ERROR(CheckDims("taus", DimsOf(taus), DimsOf(a), {x.smaller()}));
    RETURN_IF_ERROR(CheckAddressable("geqp3", kBlockMax * x.cols));
    T* const out = factors->typed_data();
    int* const pivots = permutation->typed_data();
    T* const tau = taus->typed_data();
    CopyInto(pivots, fixed.typed_data(), x.count * x.cols);
    if (x.size() == 0) return absl::OkStatus();
    CopyInto(out, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("geqp3", 3 * int64_t{x.cols} + 1, [&](T* work) {
                       R unused[2];
                       return Factor(x, out, pivots, tau, work, -1, unused);
                     }));
    return ForEachPiece(pool, x.count, QrFlops(x), [&](int64_t begin, int64_t end) -> absl::Status {
      ASSIGN_OR_RETURN(const Scratch<T> work, Scratch<T>::Create(lwork));
      ASSIGN_OR_RETURN(const Scratch<R> norms, Scratch<R>::Create(2 * int64_t{x.cols}));
      for (int64_t i = begin; i < end; ++i) {
        Factor(x, out + i * x.size(), pivots + i * x.cols, tau + i * x.smaller(), work.get(), lwork, norms.get());
      }
      return absl::OkStatus();
    });
  }

 private:
  static int Factor(const MatrixBatch& x, T* a, int* pivots, T* tau, T* work, int lwork, R* norms) {
    if constexpr (lapack::kIsComplex<T>) {
      return lapack::Geqp3<T>(x.rows, x.cols, a, x.leading(), pivots, tau, work, lwork, norms);
    } else {
      return lapack::Geqp3<T>(x.rows, x.cols, a, x.leading(), pivots, tau, work, lwork);
    }
  }
};

// The number of reflectors: the last dimension of `taus`, which are vectors of one for each matrix of `matrices`.
absl::StatusOr<int> Reflectors(Dims taus, Dims matrices, int most) {
  const int64_t count = taus.empty() ? -1 : taus.back();
  RETURN_IF_ERROR(CheckDims("taus", taus, matrices, {count}));
  if (count < 0 || count > most) {
    return absl::InvalidArgumentError("there are more reflectors than the matrix has columns or rows");
  }
  return static_cast<int>(count);
}

template <ffi::DataType kType>
struct QOfQr {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::Buffer<kType> taus,
                          ffi::ResultBuffer<kType> q) {
    ASSIGN_OR_RETURN(const MatrixBatch x, Matrices("a", DimsOf(a)));
    if (x.cols > x.rows) return absl::InvalidArgumentError("Q can't have more columns than rows");
    ASSIGN_OR_RETURN(const int k, Reflectors(DimsOf(taus), DimsOf(a), x.cols));
    RETURN_IF_ERROR(CheckDims("Q", DimsOf(q), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckAddressable("orgqr", kBlockMax * x.cols));
    if (x.size() == 0) return absl::OkStatus();
    T* const out = q->typed_data();
    const T* const tau = taus.typed_data();
    CopyInto(out, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("orgqr", x.cols, [&](T* work) {
                       return lapack::Orgqr<T>(x.rows, x.cols, k, out, x.leading(), tau, work, -1);
                     }));
    return ForEachMatrix<T>(pool, x.count, QrFlops(x), lwork, [&](int64_t i, T* work) {
      lapack::Orgqr<T>(x.rows, x.cols, k, out + i * x.size(), x.leading(), tau + i * k, work, lwork);
    });
  }
};

template <ffi::DataType kType>
struct QTimes {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Attr<bool>("left")
        .template Attr<bool>("transpose")
        .template Ret<ffi::Buffer<kType>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::Buffer<kType> taus, ffi::Buffer<kType> c,
                          bool left, bool transpose, ffi::ResultBuffer<kType> product) {
    ASSIGN_OR_RETURN(const MatrixBatch x, Matrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const MatrixBatch y, Matrices("c", DimsOf(c)));
    RETURN_IF_ERROR(CheckDims("a", DimsOf(a), DimsOf(c), {left ? y.rows : y.cols, x.cols}));
    ASSIGN_OR_RETURN(const int k, Reflectors(DimsOf(taus), DimsOf(a), x.smaller()));
    RETURN_IF_ERROR(CheckDims("the product", DimsOf(product), DimsOf(c), {y.rows, y.cols}));
    const int across = left ? y.cols : y.rows;
    RETURN_IF_ERROR(CheckAddressable("ormqr", kBlockMax * (across + kBlockMax)));
    if (y.size() == 0) return absl::OkStatus();
    const char side = left ? 'L' : 'R';
    const char op = !transpose ? 'N' : lapack::kIsComplex<T> ? 'C' : 'T';
    T* const out = product->typed_data();
    const T* const reflectors = a.typed_data();
    const T* const tau = taus.typed_data();
    CopyInto(out, c.typed_data(), y.count * y.size());
    const auto multiply = [&](int64_t i, T* work, int lwork) {
      return lapack::Ormqr<T>(side, op, y.rows, y.cols, k, reflectors + i * x.size(), x.leading(), tau + i * k,
                              out + i * y.size(), y.leading(), work, lwork);
    };
    ASSIGN_OR_RETURN(const int lwork,
                     WorkspaceSize<T>("ormqr", across, [&](T* work) { return multiply(0, work, -1); }));
    return ForEachMatrix<T>(pool, y.count, 4.0 * k * static_cast<double>(y.size()), lwork,
                            [&](int64_t i, T* work) { multiply(i, work, lwork); });
  }
};

}  // namespace

std::vector<NativeHandler> QrHandlers() {
  return Joined(HandlersOf<Qr>("geqrf", "geqrf"), HandlersOf<PivotedQr>("geqp3", "geqp3"),
                HandlersOf<QOfQr>("orgqr", "ungqr"), HandlersOf<QTimes>("ormqr", "unmqr"));
}

}  // namespace switchtower::linalg
