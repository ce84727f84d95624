#include "worker/engine/fake_programs.h"

#include <string.h>

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

template <typename T>
void AddInto(std::vector<char>& bytes, const char* other, size_t count) {
  T* values = reinterpret_cast<T*>(bytes.data());
  for (size_t i = 0; i < count; ++i) {
    T value;
    memcpy(&value, other + i * sizeof(T), sizeof(T));
    values[i] = static_cast<T>(values[i] + value);
  }
}

// value += other, elementwise.
absl::Status Add(FakeValue& value, const FakeValue& other) {
  if (!(value.shape == other.shape)) return absl::InvalidArgumentError("shapes of a fake sum differ");
  const size_t count = static_cast<size_t>(value.shape.elements());
  switch (value.shape.dtype) {
    case DType::kF32:
      AddInto<float>(value.bytes, other.bytes.data(), count);
      return absl::OkStatus();
    case DType::kF64:
      AddInto<double>(value.bytes, other.bytes.data(), count);
      return absl::OkStatus();
    case DType::kS8:
    case DType::kU8:
      AddInto<uint8_t>(value.bytes, other.bytes.data(), count);
      return absl::OkStatus();
    case DType::kS32:
    case DType::kU32:
      AddInto<uint32_t>(value.bytes, other.bytes.data(), count);
      return absl::OkStatus();
    case DType::kS64:
    case DType::kU64:
      AddInto<uint64_t>(value.bytes, other.bytes.data(), count);
      return absl::OkStatus();
    default:
      return absl::UnimplementedError(
          fmt::format("fake programs can't add elements of type {}", Name(value.shape.dtype)));
  }
}

absl::StatusOr<FakeValue> One(const Shape& shape) {
  FakeValue one{shape, std::vector<char>(static_cast<size_t>(shape.host_bytes()))};
  const size_t size = static_cast<size_t>(HostBytes(shape.dtype));
  for (size_t at = 0; at < one.bytes.size(); at += size) {
    const float f32 = 1;
    const double f64 = 1;
    if (shape.dtype == DType::kF32) {
      memcpy(&one.bytes[at], &f32, sizeof(f32));
    } else if (shape.dtype == DType::kF64) {
      memcpy(&one.bytes[at], &f64, sizeof(f64));
    } else {
      one.bytes[at] = 1;  // little-endian integers
    }
  }
  return one;
}

absl::StatusOr<std::vector<FakeValue>> AddOne(const FakeCall& call) {
  std::vector<FakeValue> results = call.arguments;
  for (FakeValue& value : results) {
    ASSIGN_OR_RETURN(const FakeValue one, One(value.shape));
    RETURN_IF_ERROR(Add(value, one));
  }
  return results;
}

absl::StatusOr<std::vector<FakeValue>> Sum(const FakeCall& call) {
  if (call.arguments.empty()) return absl::InvalidArgumentError("a fake sum of nothing");
  FakeValue total = call.arguments[0];
  for (size_t i = 1; i < call.arguments.size(); ++i) RETURN_IF_ERROR(Add(total, call.arguments[i]));
  return std::vector<FakeValue>{std::move(total)};
}

}  // namespace

void RegisterFakePrograms(FakeEngine& engine) {
  engine.RegisterProgram("identity", 1, {}, [](const FakeCall& call) { return call.arguments; });
  engine.RegisterProgram("add_one", 1, {}, AddOne);
  engine.RegisterProgram("sum", 1, {}, Sum);
  engine.RegisterProgram("fail", 1, {}, [](const FakeCall&) -> absl::StatusOr<std::vector<FakeValue>> {
    return absl::InternalError("fake program failed");
  });
}

}  // namespace switchtower
