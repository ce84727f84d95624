// Singular values: divide and conquer (gesdd) and QR iteration (gesvd). Operands and results are alike.
#include <algorithm>

#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

// How large U and VT are: whole for mode 'A', as many vectors as values for 'S'. For 'N', where they stay zero, jax
// gives them the size that they would have; the dimensions of the two results, `u` and `vt`, tell.
struct Vectors {
  char mode;
  int u_cols, vt_rows;
};

absl::StatusOr<Vectors> ReadMode(uint8_t mode, const MatrixBatch& x, Dims u, Dims vt) {
  ASSIGN_OR_RETURN(const char letter, Letter("mode", mode, "ASN"));
  const bool whole_sizes = u.size() >= 2 && u.back() == x.rows && vt.size() >= 2 && vt[vt.size() - 2] == x.cols;
  const bool whole = letter == 'A' || (letter == 'N' && whole_sizes);
  if (whole) return Vectors{letter, x.rows, x.cols};
  return Vectors{letter, x.smaller(), x.smaller()};
}

// The largest product of dimensions in either routine: it decides between algorithms by them, in 32 bits, and a wrong
// decision writes beyond the workspace.
double LargestProduct(const MatrixBatch& x) {
  const double small = x.smaller(), large = x.larger();
  return 5 * small * small + 4 * small * large + 256 * large;
}

// Where one matrix's arrays are.
template <typename T>
struct Arrays {
  T* a;
  lapack::Real<T>* s;
  T* u;
  T* vt;
};

template <typename T>
struct DivideAndConquer {
  using R = lapack::Real<T>;
  static constexpr char kName[] = "gesdd";

  static int Call(const MatrixBatch& x, const Vectors& v, const Arrays<T>& m, T* work, int lwork, R* reals,
                  int* integers) {
    const int ldvt = std::max(v.vt_rows, 1);
    if constexpr (lapack::kIsComplex<T>) {
      return lapack::Gesdd<T>(v.mode, x.rows, x.cols, m.a, x.leading(), m.s, m.u, x.leading(), m.vt, ldvt, work, lwork,
                              reals, integers);
    } else {
      return lapack::Gesdd<T>(v.mode, x.rows, x.cols, m.a, x.leading(), m.s, m.u, x.leading(), m.vt, ldvt, work, lwork,
                              integers);
    }
  }
  static int64_t Minimum(const MatrixBatch& x, char mode) {
    const int64_t small = x.smaller(), large = x.larger();
    if (lapack::kIsComplex<T>) return (mode == 'N' ? 2 : small + 3) * small + large;
    return mode == 'N' ? 3 * small + std::max(large, 7 * small) : 4 * small * small + 7 * small + large;
  }
  static int64_t Reals(const MatrixBatch& x, char mode) {
    const int64_t small = x.smaller(), large = x.larger();
    if (mode == 'N') return 7 * small;
    return small * std::max(5 * small + 5, 2 * large + 2 * small + 1);
  }
  static int64_t Integers(const MatrixBatch& x) { return 8 * int64_t{x.smaller()}; }
};

template <typename T>
struct QrIteration {
  using R = lapack::Real<T>;
  static constexpr char kName[] = "gesvd";

  static int Call(const MatrixBatch& x, const Vectors& v, const Arrays<T>& m, T* work, int lwork, R* reals, int*) {
    const int ldvt = std::max(v.vt_rows, 1);
    if constexpr (lapack::kIsComplex<T>) {
      return lapack::Gesvd<T>(v.mode, v.mode, x.rows, x.cols, m.a, x.leading(), m.s, m.u, x.leading(), m.vt, ldvt, work,
                              lwork, reals);
    } else {
      return lapack::Gesvd<T>(v.mode, v.mode, x.rows, x.cols, m.a, x.leading(), m.s, m.u, x.leading(), m.vt, ldvt, work,
                              lwork);
    }
  }
  static int64_t Minimum(const MatrixBatch& x, char) {
    return std::max<int64_t>(3 * int64_t{x.smaller()} + x.larger(), 5 * int64_t{x.smaller()});
  }
  static int64_t Reals(const MatrixBatch& x, char) { return 5 * int64_t{x.smaller()}; }
  static int64_t Integers(const MatrixBatch&) { return 0; }
};

template <ffi::DataType kType, template <typename> typename Routine>
struct Svd {
  using T = ffi::NativeType<kType>;
  using R = lapack::Real<T>;
  using Algorithm = Routine<T>;
  static constexpr ffi::DataType kReal = ffi::ToReal(kType);

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kReal>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>()
        .template Attr<uint8_t>("mode");
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::ResultBuffer<kType> overwritten,
                          ffi::ResultBuffer<kReal> values, ffi::ResultBuffer<kType> left,
                          ffi::ResultBuffer<kType> right, ffi::ResultBuffer<kInfo> info, uint8_t mode) {
    ASSIGN_OR_RETURN(const MatrixBatch x, Matrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const Vectors v, ReadMode(mode, x, DimsOf(left), DimsOf(right)));
    RETURN_IF_ERROR(CheckDims("the overwritten a", DimsOf(overwritten), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the singular values", DimsOf(values), DimsOf(a), {x.smaller()}));
    RETURN_IF_ERROR(CheckDims("U", DimsOf(left), DimsOf(a), {x.rows, v.u_cols}));
    RETURN_IF_ERROR(CheckDims("VT", DimsOf(right), DimsOf(a), {v.vt_rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    RETURN_IF_ERROR(CheckAddressable(Algorithm::kName, LargestProduct(x)));
    const int64_t u_size = int64_t{x.rows} * v.u_cols, vt_size = int64_t{v.vt_rows} * x.cols;
    const Arrays<T> first{overwritten->typed_data(), values->typed_data(), left->typed_data(), right->typed_data()};
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    Clear(first.u, x.count * u_size);
    Clear(first.vt, x.count * vt_size);
    if (x.size() == 0) return absl::OkStatus();
    Clear(first.s, x.count * x.smaller());
    CopyInto(first.a, a.typed_data(), x.count * x.size());

    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>(Algorithm::kName, Algorithm::Minimum(x, v.mode), [&](T* work) {
                       R real;
                       int integer;
                       return Algorithm::Call(x, v, first, work, -1, &real, &integer);
                     }));
    const double flops = 10.0 * static_cast<double>(x.size()) * x.smaller();
    return ForEachPiece(pool, x.count, flops, [&](int64_t begin, int64_t end) -> absl::Status {
      ASSIGN_OR_RETURN(const Scratch<T> work, Scratch<T>::Create(lwork));
      ASSIGN_OR_RETURN(const Scratch<R> reals,
                       Scratch<R>::Create(lapack::kIsComplex<T> ? Algorithm::Reals(x, v.mode) : 0));
      ASSIGN_OR_RETURN(const Scratch<int> integers, Scratch<int>::Create(Algorithm::Integers(x)));
      for (int64_t i = begin; i < end; ++i) {
        const Arrays<T> arrays{first.a + i * x.size(), first.s + i * x.smaller(), first.u + i * u_size,
                               first.vt + i * vt_size};
        infos[i] = Algorithm::Call(x, v, arrays, work.get(), lwork, reals.get(), integers.get());
      }
      return absl::OkStatus();
    });
  }
};

template <ffi::DataType kType>
using Gesdd = Svd<kType, DivideAndConquer>;
template <ffi::DataType kType>
using Gesvd = Svd<kType, QrIteration>;

}  // namespace

std::vector<NativeHandler> SvdHandlers() {
  return Joined(HandlersOf<Gesdd>("gesdd", "gesdd"), HandlersOf<Gesvd>("gesvd", "gesvd"));
}

}  // namespace switchtower::linalg
