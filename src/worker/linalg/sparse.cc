// A sparse matrix in CSR form times a dense matrix or vector, both row-major (jax.experimental.sparse).
//
// Row r of the sparse matrix has the entries [starts[r], starts[r + 1]) of `values` and `columns`. These are data that
// the program computes, so each is checked before it is used as an index.
#include "worker/linalg/batch_map.h"
#include "worker/linalg/families.h"
#include "worker/linalg/kernel.h"

namespace switchtower::linalg {
namespace {

struct Sizes {
  int64_t rows, inner, cols, entries;
};

template <typename T, typename Index>
struct Product {
  const T* values;
  const Index* starts;
  const Index* columns;
  const T* dense;
  T* result;

  absl::Status Rows(const Sizes& sizes, int64_t begin, int64_t end) const {
    Clear(result + begin * sizes.cols, (end - begin) * sizes.cols);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = starts[row], last = starts[row + 1];
      if (first < 0 || last < first || last > sizes.entries) {
        return absl::InvalidArgumentError(
            "the row starts of a sparse matrix aren't in order or exceed its "
            "entries");
      }
      for (int64_t entry = first; entry < last; ++entry) {
        const int64_t column = columns[entry];
        if (column < 0 || column >= sizes.inner) {
          return absl::InvalidArgumentError("a sparse matrix has an entry outside its columns");
        }
        AddRow(result + row * sizes.cols, values[entry], dense + column * sizes.cols, sizes.cols);
      }
    }
    return absl::OkStatus();
  }

  static void AddRow(T* sum, T factor, const T* row, int64_t size) {
    for (int64_t i = 0; i < size; ++i) sum[i] += factor * row[i];
  }
};

struct CsrTimesDense {
  static auto Signature() {
    return ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Ret<ffi::AnyBuffer>();
  }

  static absl::Status Run(ffi::ThreadPool pool, ffi::AnyBuffer values, ffi::AnyBuffer starts, ffi::AnyBuffer columns,
                          ffi::AnyBuffer dense, ffi::Result<ffi::AnyBuffer> result) {
    const Call call{pool, values, starts, columns, dense, *result};
    if (dense.element_type() != values.element_type() || result->element_type() != values.element_type()) {
      return absl::InvalidArgumentError("the matrices differ in element type");
    }
    ASSIGN_OR_RETURN(const Sizes sizes, ReadSizes(call));
    switch (values.element_type()) {
      case ffi::DataType::S32:
        return ByIndex<int32_t>(call, sizes);
      case ffi::DataType::S64:
        return ByIndex<int64_t>(call, sizes);
      case ffi::DataType::F32:
        return ByIndex<float>(call, sizes);
      case ffi::DataType::F64:
        return ByIndex<double>(call, sizes);
      case ffi::DataType::C64:
        return ByIndex<std::complex<float>>(call, sizes);
      case ffi::DataType::C128:
        return ByIndex<std::complex<double>>(call, sizes);
      default:
        return absl::InvalidArgumentError("no product of sparse matrices with this element type");
    }
  }

 private:
  struct Call {
    const ffi::ThreadPool& pool;
    ffi::AnyBuffer values, starts, columns, dense, result;
  };

  static absl::StatusOr<Sizes> ReadSizes(const Call& call) {
    const Dims values = DimsOf(call.values), starts = DimsOf(call.starts), columns = DimsOf(call.columns);
    const Dims dense = DimsOf(call.dense), result = DimsOf(call.result);
    const bool fits = values.size() == 1 && starts.size() == 1 && columns == values &&
                      (dense.size() == 1 || dense.size() == 2) && result.size() == dense.size() &&
                      starts[0] == result[0] + 1 && (dense.size() == 1 || dense[1] == result[1]);
    if (!fits) return absl::InvalidArgumentError("the shapes of a sparse product don't fit each other");
    return Sizes{result[0], dense[0], dense.size() == 1 ? 1 : dense[1], values[0]};
  }

  template <typename T>
  static absl::Status ByIndex(const Call& call, const Sizes& sizes) {
    if (call.starts.element_type() != call.columns.element_type()) {
      return absl::InvalidArgumentError("the indices of a sparse matrix differ in type");
    }
    switch (call.starts.element_type()) {
      case ffi::DataType::S32:
        return Compute<T, int32_t>(call, sizes);
      case ffi::DataType::S64:
        return Compute<T, int64_t>(call, sizes);
      default:
        return absl::InvalidArgumentError("the indices of a sparse matrix must be s32 or s64");
    }
  }

  template <typename T, typename Index>
  static absl::Status Compute(const Call& call, const Sizes& sizes) {
    const Product<T, Index> product{
        static_cast<const T*>(call.values.untyped_data()), static_cast<const Index*>(call.starts.untyped_data()),
        static_cast<const Index*>(call.columns.untyped_data()), static_cast<const T*>(call.dense.untyped_data()),
        static_cast<T*>(call.result.untyped_data())};
    const double entries = static_cast<double>(sizes.entries) / static_cast<double>(sizes.rows + 1) + 1;
    return ForEachPiece(call.pool, sizes.rows, 2 * entries * static_cast<double>(sizes.cols),
                        [&](int64_t begin, int64_t end) { return product.Rows(sizes, begin, end); });
  }
};

}  // namespace

std::vector<NativeHandler> SparseHandlers() { return {Handler<CsrTimesDense>("cpu_csr_sparse_dense_ffi")}; }

}  // namespace switchtower::linalg
