#include "hlo/literal_text.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace switchtower {
namespace {

// Constants with more elements are shown as {...}.
constexpr int64_t kShownElements = 10;

float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float mantissa = static_cast<float>(bits & 1023) / 1024.0f;
  float value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -14);
  } else {
    value = std::ldexp(1.0f + mantissa, exponent - 15);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

float BFloatToFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

template <typename T>
std::string RawElement(const std::string& bytes, int64_t i) {
  if (bytes.size() < static_cast<size_t>(i + 1) * sizeof(T)) return "?";
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return fmt::format("{}", value);
}

template <float (*Convert)(uint16_t)>
std::string SmallFloat(const std::string& bytes, int64_t i) {
  if (bytes.size() < static_cast<size_t>(i + 1) * 2) return "?";
  uint16_t value;
  std::memcpy(&value, bytes.data() + i * 2, 2);
  return fmt::format("{}", Convert(value));
}

template <typename List>
std::string Element(const List& list, int64_t i) {
  return i < list.size() ? fmt::format("{}", list.Get(static_cast<int>(i))) : "?";
}

template <typename List>
std::string Complex(const List& list, int64_t i) {
  return absl::StrCat("(", Element(list, 2 * i), ", ", Element(list, 2 * i + 1), ")");
}

std::string ElementText(const xla::LiteralProto& literal, int64_t i) {
  switch (literal.shape().element_type()) {
    case xla::PRED:
      return Element(literal.preds(), i);
    case xla::S8:
      return RawElement<int8_t>(literal.s8s(), i);
    case xla::U8:
      return RawElement<uint8_t>(literal.u8s(), i);
    case xla::S16:
      return RawElement<int16_t>(literal.s16s(), i);
    case xla::U16:
      return RawElement<uint16_t>(literal.u16s(), i);
    case xla::S32:
      return Element(literal.s32s(), i);
    case xla::S64:
      return Element(literal.s64s(), i);
    case xla::U32:
      return Element(literal.u32s(), i);
    case xla::U64:
      return Element(literal.u64s(), i);
    case xla::F16:
      return SmallFloat<HalfToFloat>(literal.f16s(), i);
    case xla::BF16:
      return SmallFloat<BFloatToFloat>(literal.bf16s(), i);
    case xla::F32:
      return Element(literal.f32s(), i);
    case xla::F64:
      return Element(literal.f64s(), i);
    case xla::C64:
      return Complex(literal.c64s(), i);
    case xla::C128:
      return Complex(literal.c128s(), i);
    default:
      return "...";
  }
}

std::string ArrayText(const xla::LiteralProto& literal, int dimension, int64_t& next) {
  if (dimension == literal.shape().dimensions_size()) return ElementText(literal, next++);
  std::vector<std::string> parts;
  for (int64_t i = 0; i < literal.shape().dimensions(dimension); ++i) {
    parts.push_back(ArrayText(literal, dimension + 1, next));
  }
  const bool innermost = dimension + 1 == literal.shape().dimensions_size();
  return innermost ? absl::StrCat("{", absl::StrJoin(parts, ", "), "}")
                   : absl::StrCat("{ ", absl::StrJoin(parts, ", "), " }");
}

}  // namespace

std::string LiteralText(const xla::LiteralProto& literal) {
  if (literal.shape().element_type() == xla::TUPLE) {
    std::vector<std::string> parts;
    for (const auto& part : literal.tuple_literals()) parts.push_back(LiteralText(part));
    return absl::StrCat("( ", absl::StrJoin(parts, ", "), " )");
  }
  int64_t elements = 1;
  for (int64_t dim : literal.shape().dimensions()) {
    if (dim < 0 || dim > kShownElements || elements > kShownElements) return "{...}";
    elements *= dim;
  }
  if (elements > kShownElements || literal.shape().dimensions_size() > kShownElements) return "{...}";
  int64_t next = 0;
  return ArrayText(literal, 0, next);
}

}  // namespace switchtower
