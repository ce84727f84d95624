#include "worker/linalg/operands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace switchtower::linalg {
namespace {

std::string Text(Dims dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

}  // namespace

absl::StatusOr<MatrixBatch> Matrices(std::string_view name, Dims dims) {
  if (dims.size() < 2) {
    return absl::InvalidArgumentError(fmt::format("{} has shape {}, not that of a matrix", name, Text(dims)));
  }
  MatrixBatch batch;
  batch.count = 1;
  for (int64_t dim : dims.subspan(0, dims.size() - 2)) {
    // Only a buffer without elements can say so: no other fits into memory.
    if (dim > 0 && batch.count > std::numeric_limits<int64_t>::max() / dim) {
      return absl::InvalidArgumentError(fmt::format("{} has shape {}, too large a batch", name, Text(dims)));
    }
    batch.count *= dim;
  }
  const int64_t rows = dims[dims.size() - 2], cols = dims[dims.size() - 1];
  RETURN_IF_ERROR(CheckAddressable(name, static_cast<double>(std::max(rows, cols))));
  batch.rows = static_cast<int>(rows);
  batch.cols = static_cast<int>(cols);
  return batch;
}

absl::StatusOr<MatrixBatch> SquareMatrices(std::string_view name, Dims dims) {
  ASSIGN_OR_RETURN(const MatrixBatch batch, Matrices(name, dims));
  if (batch.rows != batch.cols) {
    return absl::InvalidArgumentError(fmt::format("{} has shape {}, its matrices aren't square", name, Text(dims)));
  }
  return batch;
}

absl::Status CheckDims(std::string_view name, Dims dims, Dims matrices, std::initializer_list<int64_t> tail) {
  const Dims batch = matrices.subspan(0, matrices.size() - 2);
  if (dims.size() == batch.size() + tail.size() && std::equal(batch.begin(), batch.end(), dims.begin()) &&
      std::equal(tail.begin(), tail.end(), dims.begin() + static_cast<ptrdiff_t>(batch.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("{} has shape {}, but {} followed by {} is needed", name, Text(dims),
                                                Text(batch), Text(Dims(tail.begin(), tail.size()))));
}

absl::StatusOr<char> Letter(std::string_view name, uint8_t value, std::string_view allowed) {
  const char letter = static_cast<char>(value);
  if (letter != '\0' && allowed.find(letter) != std::string_view::npos) return letter;
  return absl::InvalidArgumentError(fmt::format("attribute {} is {}, not one of the letters {}", name, value, allowed));
}

absl::Status CheckAddressable(std::string_view routine, double quantity) {
  if (quantity <= std::numeric_limits<int>::max()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{}: the matrices are larger than LAPACK's 32-bit integers can address", routine));
}

}  // namespace switchtower::linalg
