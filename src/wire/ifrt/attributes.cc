#include "wire/ifrt/attributes.h"

#include <fmt/format.h>

namespace switchtower {

void SetAttribute(const std::string& name, int64_t value, xla::ifrt::AttributeMapProto* proto) {
  (*proto->mutable_attributes())[name].set_int64_value(value);
}

void SetAttribute(const std::string& name, const std::vector<int64_t>& values, xla::ifrt::AttributeMapProto* proto) {
  auto* list = (*proto->mutable_attributes())[name].mutable_int64_list_value();
  for (int64_t value : values) list->add_elements(value);
}

void SetAttribute(const std::string& name, const std::string& value, xla::ifrt::AttributeMapProto* proto) {
  (*proto->mutable_attributes())[name].set_string_value(value);
}

void SetAttribute(const std::string& name, float value, xla::ifrt::AttributeMapProto* proto) {
  (*proto->mutable_attributes())[name].set_float_value(value);
}

void SetBoolAttribute(const std::string& name, bool value, xla::ifrt::AttributeMapProto* proto) {
  (*proto->mutable_attributes())[name].set_bool_value(value);
}

std::optional<std::string> StringAttribute(const xla::ifrt::AttributeMapProto& proto, const std::string& name) {
  auto it = proto.attributes().find(name);
  if (it == proto.attributes().end() || !it->second.has_string_value()) return std::nullopt;
  return it->second.string_value();
}

std::optional<std::string> TextAttribute(const xla::ifrt::AttributeMapProto& proto, const std::string& name) {
  auto it = proto.attributes().find(name);
  if (it == proto.attributes().end()) return std::nullopt;
  if (it->second.has_int64_value()) return std::to_string(it->second.int64_value());
  if (it->second.has_float_value()) return fmt::format("{}", it->second.float_value());
  return StringAttribute(proto, name);
}

}  // namespace switchtower
