// Named values of devices, clients and programs as xla.ifrt.AttributeMapProto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "xla/python/ifrt/attribute_map.pb.h"

namespace switchtower {

void SetAttribute(const std::string& name, int64_t value, xla::ifrt::AttributeMapProto* proto);
void SetAttribute(const std::string& name, const std::vector<int64_t>& values, xla::ifrt::AttributeMapProto* proto);
void SetAttribute(const std::string& name, const std::string& value, xla::ifrt::AttributeMapProto* proto);
// The wire has single precision only.
void SetAttribute(const std::string& name, float value, xla::ifrt::AttributeMapProto* proto);

// Not an overload: text in quotes would find it first.
void SetBoolAttribute(const std::string& name, bool value, xla::ifrt::AttributeMapProto* proto);

// Absent, or not a string: nothing.
std::optional<std::string> StringAttribute(const xla::ifrt::AttributeMapProto& proto, const std::string& name);
// A string, or an integer or a float as text.
std::optional<std::string> TextAttribute(const xla::ifrt::AttributeMapProto& proto, const std::string& name);

}  // namespace switchtower
