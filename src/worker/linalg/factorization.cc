// Cholesky (potrf) and LU (getrf).
#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

template <ffi::DataType kType>
struct Cholesky {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Attr<uint8_t>("uplo")
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t uplo, ffi::ResultBuffer<kType> factor,
                          ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, SquareMatrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const char triangle, Letter("uplo", uplo, "LU"));
    RETURN_IF_ERROR(CheckDims("the factor", DimsOf(factor), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    T* const out = factor->typed_data();
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.size() == 0) return absl::OkStatus();
    CopyInto(out, a.typed_data(), x.count * x.size());
    const double n = x.rows;
    return ForEachPiece(pool, x.count, n * n * n / 3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        infos[i] = lapack::Potrf<T>(triangle, x.rows, out + i * x.size(), x.leading());
      }
      return absl::OkStatus();
    });
  }
};

template <ffi::DataType kType>
struct Lu {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kInfo>>()
        .template Ret<ffi::Buffer<kInfo>>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::ResultBuffer<kType> factors,
                          ffi::ResultBuffer<kInfo> pivots, ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, Matrices("a", DimsOf(a)));
    RETURN_IF_ERROR(CheckDims("the factors", DimsOf(factors), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("pivots", DimsOf(pivots), DimsOf(a), {x.smaller()}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    T* const out = factors->typed_data();
    int* const swaps = pivots->typed_data();
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    if (x.size() == 0) return absl::OkStatus();
    CopyInto(out, a.typed_data(), x.count * x.size());
    return ForEachPiece(pool, x.count, double(x.size()) * x.smaller(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        infos[i] = lapack::Getrf<T>(x.rows, x.cols, out + i * x.size(), x.leading(), swaps + i * x.smaller());
      }
      return absl::OkStatus();
    });
  }
};

}  // namespace

std::vector<NativeHandler> FactorizationHandlers() {
  return Joined(HandlersOf<Cholesky>("potrf", "potrf"), HandlersOf<Lu>("getrf", "getrf"));
}

}  // namespace switchtower::linalg
