// Triangular systems with many right-hand sides (BLAS trsm).
#include <cblas.h>

#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

struct Form {
  CBLAS_SIDE side;
  CBLAS_UPLO uplo;
  CBLAS_TRANSPOSE transpose;
  CBLAS_DIAG diagonal;
};

absl::StatusOr<Form> ReadForm(uint8_t side, uint8_t uplo, uint8_t transpose, uint8_t diagonal) {
  ASSIGN_OR_RETURN(const char side_letter, Letter("side", side, "LR"));
  ASSIGN_OR_RETURN(const char uplo_letter, Letter("uplo", uplo, "LU"));
  ASSIGN_OR_RETURN(const char transpose_letter, Letter("trans_x", transpose, "NTC"));
  ASSIGN_OR_RETURN(const char diagonal_letter, Letter("diag", diagonal, "NU"));
  return Form{side_letter == 'L' ? CblasLeft : CblasRight, uplo_letter == 'L' ? CblasLower : CblasUpper,
              transpose_letter == 'N'   ? CblasNoTrans
              : transpose_letter == 'T' ? CblasTrans
                                        : CblasConjTrans,
              diagonal_letter == 'N' ? CblasNonUnit : CblasUnit};
}

// b = the solution. `a` has `order` rows and columns.
template <typename T>
void Solve(const Form& form, const MatrixBatch& y, int order, const T* a, T* b) {
  const T one(1);
  if constexpr (std::is_same_v<T, float>) {
    cblas_strsm(CblasColMajor, form.side, form.uplo, form.transpose, form.diagonal, y.rows, y.cols, one, a, order, b,
                y.leading());
  } else if constexpr (std::is_same_v<T, double>) {
    cblas_dtrsm(CblasColMajor, form.side, form.uplo, form.transpose, form.diagonal, y.rows, y.cols, one, a, order, b,
                y.leading());
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    cblas_ctrsm(CblasColMajor, form.side, form.uplo, form.transpose, form.diagonal, y.rows, y.cols, &one, a, order, b,
                y.leading());
  } else {
    cblas_ztrsm(CblasColMajor, form.side, form.uplo, form.transpose, form.diagonal, y.rows, y.cols, &one, a, order, b,
                y.leading());
  }
}

template <ffi::DataType kType>
struct TriangularSolve {
  using T = ffi::NativeType<kType>;

  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .template Arg<ffi::Buffer<kType>>()
        .template Arg<ffi::Buffer<kType>>()
        .template Ret<ffi::Buffer<kType>>()
        .template Attr<uint8_t>("side")
        .template Attr<uint8_t>("uplo")
        .template Attr<uint8_t>("trans_x")
        .template Attr<uint8_t>("diag");
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, ffi::Buffer<kType> b,
                          ffi::ResultBuffer<kType> solution, uint8_t side, uint8_t uplo, uint8_t transpose,
                          uint8_t diagonal) {
    ASSIGN_OR_RETURN(const Form form, ReadForm(side, uplo, transpose, diagonal));
    ASSIGN_OR_RETURN(const MatrixBatch y, Matrices("b", DimsOf(b)));
    const int order = form.side == CblasLeft ? y.rows : y.cols;
    RETURN_IF_ERROR(CheckDims("a", DimsOf(a), DimsOf(b), {order, order}));
    RETURN_IF_ERROR(CheckDims("the solution", DimsOf(solution), DimsOf(b), {y.rows, y.cols}));
    if (y.size() == 0) return absl::OkStatus();
    T* const out = solution->typed_data();
    const T* const triangles = a.typed_data();
    CopyInto(out, b.typed_data(), y.count * y.size());
    return ForEachPiece(pool, y.count, double(y.size()) * order, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Solve(form, y, order, triangles + i * order * order, out + i * y.size());
      }
      return absl::OkStatus();
    });
  }
};

}  // namespace

std::vector<NativeHandler> TriangularSolveHandlers() { return HandlersOf<TriangularSolve>("trsm", "trsm"); }

}  // namespace switchtower::linalg
