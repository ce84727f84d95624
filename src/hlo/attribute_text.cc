#include "hlo/attribute_text.h"

namespace switchtower {

void AttributeText::Begin(std::string_view name) {
  if (!text_.empty()) text_ += ", ";
  text_ += name;
  text_ += " = ";
}

AttributeText& AttributeText::Add(std::string_view name, int64_t value) {
  Begin(name);
  text_ += std::to_string(value);
  text_ += " : i64";
  return *this;
}

AttributeText& AttributeText::Add(std::string_view name, absl::Span<const int64_t> values) {
  Begin(name);
  text_ += "array<i64";
  const char* separator = ": ";
  for (int64_t value : values) {
    text_ += separator;
    text_ += std::to_string(value);
    separator = ", ";
  }
  text_ += ">";
  return *this;
}

}  // namespace switchtower
