// Writes the attributes of a typed FFI custom call: an MLIR dictionary as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace switchtower {

class AttributeText {
 public:
  // name = 7 : i64
  AttributeText& Add(std::string_view name, int64_t value);
  // name = array<i64: 1, 2>
  AttributeText& Add(std::string_view name, absl::Span<const int64_t> values);
  // "{a = 7 : i64, b = array<i64>}"
  std::string Text() const { return "{" + text_ + "}"; }

 private:
  void Begin(std::string_view name);
  std::string text_;
};

}  // namespace switchtower
