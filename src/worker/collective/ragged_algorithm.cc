// Ragged all-to-all. Its sizes are values of the program, so a message tells its own: for each rank of the sender, for
// each rank of the receiver and slice, {row, rows} as two i64, then the rows.
#include <fmt/format.h>

#include <cstring>

#include "base/status_macros.h"
#include "worker/collective/geometry.h"
#include "worker/collective/move_algorithms.h"

namespace switchtower {
namespace {

enum Operand { kInput, kOutput, kInputOffsets, kSendSizes, kOutputOffsets, kReceiveSizes, kOperands };

int64_t ReadIndex(const CollectiveShape::Buffer& buffer, const char* data, int64_t i) {
  if (buffer.dtype == DType::kS32) {
    int32_t value;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, data + i * sizeof(value), sizeof(value));
  return value;
}

struct Slice {
  int64_t input_row = 0, rows = 0, output_row = 0;
};

bool Inside(int64_t row, int64_t rows, int64_t total) {
  return row >= 0 && rows >= 0 && rows <= total && row <= total - rows;
}

class RaggedAlgorithm : public Algorithm {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    if (shape.operands.size() != kOperands || shape.results.size() != 1 || shape.row_bytes <= 0) {
      return absl::InvalidArgumentError("ragged-all-to-all needs six operands, one result and a row size");
    }
    if (shape.results[0].bytes() != shape.operands[kOutput].bytes()) {
      return absl::InvalidArgumentError("ragged-all-to-all: result and output operand differ in size");
    }
    const auto& first = shape.operands[kInputOffsets];
    for (int i = kInputOffsets; i < kOperands; ++i) {
      const auto& index = shape.operands[i];
      if ((index.dtype != DType::kS32 && index.dtype != DType::kS64) || index.dtype != first.dtype ||
          index.elements != first.elements || index.elements % size != 0) {
        return absl::InvalidArgumentError("ragged-all-to-all: offsets and sizes don't fit the group");
      }
    }
    return absl::OkStatus();
  }

  int phases(const CollectiveShape&, const GroupPlan&) const override { return 1; }

  absl::Status Gather(const ExchangeView& view, int, int to, PieceList& pieces) const override {
    const int64_t slices = Slices(view);
    for (const MemberBuffers& member : view.members) {
      for (int position : view.plan.processes[to].positions) {
        for (int64_t u = 0; u < slices; ++u) {
          ASSIGN_OR_RETURN(const Slice slice, ReadSlice(view, member, position * slices + u));
          const int64_t head[2] = {slice.output_row, slice.rows};
          pieces.AddOwned(std::string(reinterpret_cast<const char*>(head), sizeof(head)));
          pieces.Add(member.operands[kInput] + slice.input_row * view.shape.row_bytes,
                     slice.rows * view.shape.row_bytes);
        }
      }
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> ExpectedBytes(const CollectiveShape&, const GroupPlan&, int, int) const override {
    return std::nullopt;
  }

  // In the order of the sending positions, so that the outcome is defined even where slices overlap.
  absl::Status Apply(const ExchangeView& view, int, int part, int) const override {
    if (part != 0) return absl::OkStatus();  // messages can only be read from the front
    const GroupPlan& plan = view.plan;
    for (const MemberBuffers& member : view.members) {
      CopyBytes(member.results[0], member.operands[kOutput], view.shape.results[0].bytes());
    }
    absl::InlinedVector<std::string_view, 8> rest(view.received);
    for (int r = 0; r < plan.size(); ++r) {
      const int process = plan.process_of[r];
      RETURN_IF_ERROR(process == plan.self ? FromMember(view, view.members[plan.index_of[r]])
                                           : FromMessage(view, rest[process]));
    }
    for (std::string_view left : rest) {
      if (!left.empty()) return absl::DataLossError("ragged-all-to-all: a message is longer than its slices");
    }
    return absl::OkStatus();
  }

 private:
  static int64_t Slices(const ExchangeView& view) {
    return view.shape.operands[kInputOffsets].elements / view.plan.size();
  }

  static absl::StatusOr<Slice> ReadSlice(const ExchangeView& view, const MemberBuffers& member, int64_t i) {
    const CollectiveShape& shape = view.shape;
    const auto read = [&](Operand which) { return ReadIndex(shape.operands[which], member.operands[which], i); };
    const Slice slice{read(kInputOffsets), read(kSendSizes), read(kOutputOffsets)};
    const int64_t input_rows = shape.operands[kInput].bytes() / shape.row_bytes;
    if (!Inside(slice.input_row, slice.rows, input_rows)) {
      return absl::InvalidArgumentError(fmt::format("ragged-all-to-all: rows {} + {} are outside the {} of the input",
                                                    slice.input_row, slice.rows, input_rows));
    }
    return slice;
  }

  static absl::Status Write(const ExchangeView& view, const MemberBuffers& member, int64_t row, int64_t rows,
                            const char* data) {
    const int64_t output_rows = view.shape.results[0].bytes() / view.shape.row_bytes;
    if (!Inside(row, rows, output_rows)) {
      return absl::InvalidArgumentError(
          fmt::format("ragged-all-to-all: rows {} + {} are outside the {} of the output", row, rows, output_rows));
    }
    CopyBytes(member.results[0] + row * view.shape.row_bytes, data, rows * view.shape.row_bytes);
    return absl::OkStatus();
  }

  static absl::Status FromMember(const ExchangeView& view, const MemberBuffers& sender) {
    const int64_t slices = Slices(view);
    for (size_t m = 0; m < view.members.size(); ++m) {
      for (int64_t u = 0; u < slices; ++u) {
        ASSIGN_OR_RETURN(const Slice slice, ReadSlice(view, sender, view.plan.local()[m] * slices + u));
        RETURN_IF_ERROR(Write(view, view.members[m], slice.output_row, slice.rows,
                              sender.operands[kInput] + slice.input_row * view.shape.row_bytes));
      }
    }
    return absl::OkStatus();
  }

  // Takes what one rank sent off the front of `message`.
  static absl::Status FromMessage(const ExchangeView& view, std::string_view& message) {
    for (const MemberBuffers& member : view.members) {
      for (int64_t u = 0; u < Slices(view); ++u) {
        int64_t head[2];
        if (message.size() < sizeof(head)) return absl::DataLossError("ragged-all-to-all: a message is too short");
        std::memcpy(head, message.data(), sizeof(head));
        message.remove_prefix(sizeof(head));
        const auto [row, rows] = head;
        if (rows < 0 || rows > static_cast<int64_t>(message.size()) / view.shape.row_bytes) {
          return absl::DataLossError("ragged-all-to-all: a message is shorter than its slices");
        }
        RETURN_IF_ERROR(Write(view, member, row, rows, message.data()));
        message.remove_prefix(static_cast<size_t>(rows * view.shape.row_bytes));
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

const Algorithm& RaggedAllToAll() {
  static const RaggedAlgorithm algorithm;
  return algorithm;
}

}  // namespace switchtower
