// Schur form of general matrices (gees). Eigenvalues of real matrices come as real and imaginary parts, in two results.
#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

template <ffi::DataType kType>
struct Schur {
  using T = ffi::NativeType<kType>;
  using R = lapack::Real<T>;

  static auto Signature() {
    auto common = ffi::Ffi::Bind()
                      .Ctx<ffi::ThreadPool>()
                      .template Arg<ffi::Buffer<kType>>()
                      .template Attr<uint8_t>("mode")
                      .template Attr<uint8_t>("sort")
                      .template Ret<ffi::Buffer<kType>>()
                      .template Ret<ffi::Buffer<kType>>()
                      .template Ret<ffi::Buffer<kType>>();
    if constexpr (lapack::kIsComplex<T>) {
      return WithCounts(std::move(common));
    } else {
      return WithCounts(std::move(common).template Ret<ffi::Buffer<kType>>());
    }
  }

  template <typename... Results>
  static absl::Status Run(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t mode, uint8_t sort,
                          ffi::ResultBuffer<kType> form, ffi::ResultBuffer<kType> vectors,
                          ffi::ResultBuffer<kType> values, Results... rest) {
    if constexpr (lapack::kIsComplex<T>) {
      return Compute(pool, a, mode, sort, form, vectors, values, values, rest...);
    } else {
      return Compute(pool, a, mode, sort, form, vectors, values, rest...);
    }
  }

 private:
  template <typename Binding>
  static auto WithCounts(Binding&& binding) {
    return std::forward<Binding>(binding).template Ret<ffi::Buffer<kInfo>>().template Ret<ffi::Buffer<kInfo>>();
  }

  // One matrix's results. `imaginary` is unused where values are complex.
  struct Results {
    T* form;
    T* vectors;
    T* values;
    T* imaginary;
  };

  static absl::Status Compute(ffi::ThreadPool pool, ffi::Buffer<kType> a, uint8_t mode, uint8_t sort,
                              ffi::ResultBuffer<kType> form, ffi::ResultBuffer<kType> vectors,
                              ffi::ResultBuffer<kType> values, ffi::ResultBuffer<kType> imaginary,
                              ffi::ResultBuffer<kInfo> selected, ffi::ResultBuffer<kInfo> info) {
    ASSIGN_OR_RETURN(const MatrixBatch x, SquareMatrices("a", DimsOf(a)));
    ASSIGN_OR_RETURN(const char job, Letter("mode", mode, "NV"));
    // Sorting would need a predicate, which no program can carry.
    RETURN_IF_ERROR(Letter("sort", sort, "N").status());
    RETURN_IF_ERROR(CheckDims("the Schur form", DimsOf(form), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the Schur vectors", DimsOf(vectors), DimsOf(a), {x.rows, x.cols}));
    RETURN_IF_ERROR(CheckDims("the values", DimsOf(values), DimsOf(a), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the imaginary parts", DimsOf(imaginary), DimsOf(a), {x.rows}));
    RETURN_IF_ERROR(CheckDims("the count of selected values", DimsOf(selected), DimsOf(a), {}));
    RETURN_IF_ERROR(CheckDims("info", DimsOf(info), DimsOf(a), {}));
    RETURN_IF_ERROR(CheckAddressable("gees", 512.0 * x.rows));
    const Results first{form->typed_data(), vectors->typed_data(), values->typed_data(), imaginary->typed_data()};
    int* const infos = info->typed_data();
    Clear(infos, x.count);
    Clear(selected->typed_data(), x.count);
    if (x.size() == 0) return absl::OkStatus();
    Clear(first.vectors, x.count * x.size());
    Clear(first.values, x.count * x.rows);
    Clear(first.imaginary, x.count * x.rows);
    CopyInto(first.form, a.typed_data(), x.count * x.size());
    ASSIGN_OR_RETURN(const int lwork, WorkspaceSize<T>("gees", 3 * int64_t{x.rows}, [&](T* work) {
                       R real;
                       return Decompose(job, x.rows, first, work, -1, &real);
                     }));
    const double n = x.rows;
    return ForEachPiece(pool, x.count, 20 * n * n * n, [&](int64_t begin, int64_t end) -> absl::Status {
      ASSIGN_OR_RETURN(const Scratch<T> work, Scratch<T>::Create(lwork));
      ASSIGN_OR_RETURN(const Scratch<R> reals, Scratch<R>::Create(x.rows));
      for (int64_t i = begin; i < end; ++i) {
        const Results out{first.form + i * x.size(), first.vectors + i * x.size(), first.values + i * x.rows,
                          first.imaginary + i * x.rows};
        infos[i] = Decompose(job, x.rows, out, work.get(), lwork, reals.get());
      }
      return absl::OkStatus();
    });
  }

  static int Decompose(char job, int n, const Results& out, T* work, int lwork, R* reals) {
    int selected = 0;
    int* const count = &selected;
    if constexpr (lapack::kIsComplex<T>) {
      return lapack::Gees<T>(job, 'N', nullptr, n, out.form, n, count, out.values, out.vectors, n, work, lwork, reals,
                             nullptr);
    } else {
      return lapack::Gees<T>(job, 'N', nullptr, n, out.form, n, count, out.values, out.imaginary, out.vectors, n, work,
                             lwork, nullptr);
    }
  }
};

}  // namespace

std::vector<NativeHandler> SchurHandlers() { return HandlersOf<Schur>("gees", "gees"); }

}  // namespace switchtower::linalg
