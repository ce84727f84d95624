// General matrices: eigenvalues and vectors (geev), Hessenberg form (gehrd). Schur form: schur.cc.
#include <algorithm>
#include <cmath>

#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

template <typename T>
bool AllFinite(const T* values, int64_t size) {
  return std::all_of(values, values + size,
                     [](const T& value) { return std::isfinite(std::real(value)) && std::isfinite(std::imag(value)); });
}

// LAPACK packs the vectors of a conjugate pair into two columns: real parts, then imaginary parts.
template <typename R>
void Unpack(int n, const R* imaginary, const R* packed, std::complex<R>* vectors) {
  const int64_t rows = n;
  for (int j = 0; j < n; ++j) {
    const R* const column = packed + j * rows;
    std::complex<R>* const out = vectors + j * rows;
    const bool pair = imaginary[j] != R(0) && j + 1 < n;
    for (int64_t i = 0; i < rows; ++i) {
      out[i] = {column[i], pair ? column[rows + i] : R(0)};
      if (pair) out[rows + i] = std::conj(out[i]);
    }
    if (pair) ++j;
  }
}

// What geev needs beside its arguments and results, for one thread.
template <typename T>
struct EigenWorkspace {
  Scratch<T> copy, left, right, work;
  Scratch<lapack::Real<T>> reals;

  // Vectors are in the results' own type for complex matrices, so only real ones need room for packed ones.
  static absl::StatusOr<EigenWorkspace> Create(const MatrixBatch& x, int lwork) {
    const int64_t packed = lapack::kIsComplex<T> ? 0 : x.size();
    ASSIGN_OR_RETURN(Scratch<T> copy, Scratch<T>::Create(x.size()));
    ASSIGN_OR_RETURN(Scratch<T> left, Scratch<T>::Create(packed));
    ASSIGN_OR_RETURN(Scratch<T> right, Scratch<T>::Create(packed));
    ASSIGN_OR_RETURN(Scratch<T> work, Scratch<T>::Create(lwork));
    ASSIGN_OR_RETURN(auto reals, Scratch<lapack::Real<T>>::Create(2 * int64_t{x.rows}));
    return EigenWorkspace{std::move(copy), std::move(left), std::move(right), std::move(work), std::move(reals)};
  }
};

// Eigenvalues of real matrices come as real and imaginary parts, in two results; those of complex ones in one. So there
// are two signatures over one computation.
template <ffi::DataType kType>
struct Eigen {
  using T = ffi::NativeType<kType>;
  using R = lapack::Real<T>;
  using C = std::complex<R>;
  static constexpr ffi::DataType kComplex = ffi::ToComplex(ffi::ToReal(kType));

  static auto Signature() {
    auto common = ffi::Ffi::Bind()
                      .Ctx<ffi::ThreadPool>()
                      .template Arg<ffi::Buffer<kType>>()
                      .template Attr<uint8_t>("compute_left")
                      .template Attr<uint8_t>("compute_right")
                      .template Ret<ffi::Buffer<kType>>();
    if constexpr (lapack::kIsComplex<T>) {
      return WithVectors(std::move(common));
    } else {
      return WithVectors(std::move(common).template Ret<ffi::Buffer<kType>>());
    }
  }

  template <typename... Results>
  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t compute_left, uint8_t compute_right,
                          ffi::ResultBuffer<kType> values, Results... rest) {
    if constexpr (lapack::kIsComplex<T>) {
      return Compute(pool, a, compute_left, compute_right, values, values, rest...);
    } else {
      return Compute(pool, a, compute_left, compute_right, values, rest...);
    }
  }

 private:
  template <typename Binding>
  static auto WithVectors(Binding&& binding) {
    return std::forward<Binding>(binding)
        .template Ret<ffi::Buffer<kComplex>>()
        .template Ret<ffi::Buffer<kComplex>>()
        .template Ret<ffi::Buffer<kInfo>>();
  }

  // One matrix's results. `imaginary` is unused where values are complex.
  struct Results {
    T* values;
    T* imaginary;
    C* left;
    C* right;
  };

  static absl::Status Compute(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t compute_left, uint8_t compute_right,
                              ffi::ResultBuffer<kType> values, ffi::ResultBuffer<kType> imaginary,
                              ffi::ResultBuffer<kComplex> left, ffi::ResultBuffer<kComplex> right,
                              ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, SquareMatrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const char want_left, Letter("compute_left", compute_left, "NV"));
    ASSIGN_OR_RETURN(const char want_right, Letter("compute_right", compute_right, "NV"));
    RETURN_IF_ERROR(CheckDims("the values", DimsOf(values), DimsOf(a), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the imaginary parts", DimsOf(imaginary), DimsOf(a), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the left vectors", DimsOf(left), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the right vectors", DimsOf(right), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    RETURN_IF_ERROR(CheckAddressable("geev", 512.0 * x.rows));
    const Results first{values->typed_data(), imaginary->typed_data(), left->typed_data(), right->typed_data()};
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.size() == 0) return absl::OkStatus();
    Clear(first.values, x.count * x.rows);
    Clear(first.imaginary, x.count * x.rows);
    Clear(first.left, x.count * x.size());
    Clear(first.right, x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("geev", 4 * int64_t{x.rows}, [&](T* work) {
                       R reals[2];
                       return Decompose(want_left, want_right, x.rows, nullptr, first, nullptr, nullptr, work, -1,
                                        reals);
                     }));
    const T* const matrices = a.typed_data();
    const double n = x.rows;
    return ForEachPiece(pool, x.count, 20 * n * n * n, [&](int64_t begin, int64_t end) -> absl::Status {
      ASSIGN_OR_RETURN(const EigenWorkspace<T> space, EigenWorkspace<T>::Create(x, lwork));
      for (int64_t i = begin; i < end; ++i) {
        const Results out{first.values + i * x.rows, first.imaginary + i * x.rows, first.left + i * x.size(),
                          first.right + i * x.size()};
        infos[i] = One(want_left, want_right, x, matrices + i * x.size(), out, space, lwork);
      }
      return absl::OkStatus();
    });
  }

  static int One(char want_left, char want_right, const MatrixBatch& x, const T* a, const Results& out,
                 const EigenWorkspace<T>& space, int lwork) {
    // The iteration may never end on these. jaxlib reports them as an illegal fourth argument too.
    if (!AllFinite(a, x.size())) return -4;
    T* const copy = space.copy.get();
    CopyInto(copy, a, x.size());
    const int info = Decompose(want_left, want_right, x.rows, copy, out, space.left.get(), space.right.get(),
                               space.work.get(), lwork, space.reals.get());
    if constexpr (!lapack::kIsComplex<T>) {
      if (info == 0 && want_left == 'V') Unpack(x.rows, out.imaginary, space.left.get(), out.left);
      if (info == 0 && want_right == 'V') Unpack(x.rows, out.imaginary, space.right.get(), out.right);
    }
    return info;
  }

  static int Decompose(char want_left, char want_right, int n, T* a, const Results& out, T* left, T* right, T* work,
                       int lwork, R* reals) {
    if constexpr (lapack::kIsComplex<T>) {
      return lapack::Geev<T>(want_left, want_right, n, a, n, out.values, out.left, n, out.right, n, work, lwork, reals);
    } else {
      return lapack::Geev<T>(want_left, want_right, n, a, n, out.values, out.imaginary, left, n, right, n, work, lwork);
    }
  }
};

template <ffi::DataType kType>
struct Hessenberg {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Attr<int32_t>("low")
        .template Attr<int32_t>("high")
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, int32_t low, int32_t high,
                          ffi::ResultBuffer<kType> reduced, ffi::ResultBuffer<kType> taus,
                          ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, SquareMatrices("a", DimsOf(a)));
    const int off = std::max(x.rows - 1, 0);
    RETURN_IF_ERROR(CheckDims("the reduced a", DimsOf(reduced), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("taus", DimsOf(taus), DimsOf(a), {off}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    RETURN_IF_ERROR(CheckAddressable("gehrd", 256.0 * (x.rows + 256.0)));
    if (x.rows > 0 && (low < 1 || low > high || high > x.rows)) {
      return absl::InvalidArgumentError("low and high aren't rows of the matrix, in order");
    }
    T* const out = reduced->typed_data();
    T* const tau = taus->typed_data();
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.size() == 0) return absl::OkStatus();
    Clear(tau, x.count * off);
    CopyInto(out, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("gehrd", x.rows, [&](T* work) {
                       return lapack::Gehrd<T>(x.rows, low, high, out, x.rows, tau, work, -1);
                     }));
    const double n = x.rows;
    return ForEachMatrix<T>(pool, x.count, 10 * n * n * n / 3, lwork, [&](int64_t i, T* work) {
      infos[i] = lapack::Gehrd<T>(x.rows, low, high, out + i * x.size(), x.rows, tau + i * off, work, lwork);
    });
  }
};

}  // namespace

std::vector<NativeHandler> GeneralEigenHandlers() {
  return Joined(HandlersOf<Eigen>("geev", "geev"), HandlersOf<Hessenberg>("gehrd", "gehrd"));
}

}  // namespace switchtower::linalg
