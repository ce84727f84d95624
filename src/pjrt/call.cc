#include "pjrt/call.h"

#include <fmt/core.h>

namespace switchtower::pjrt {
namespace {

struct TypePair {
  DType dtype;
  abi::PJRT_Buffer_Type type;
};
constexpr TypePair kTypes[] = {
    {DType::kPred, abi::PJRT_Buffer_Type_PRED},
    {DType::kS1, abi::PJRT_Buffer_Type_S1},
    {DType::kS2, abi::PJRT_Buffer_Type_S2},
    {DType::kS4, abi::PJRT_Buffer_Type_S4},
    {DType::kS8, abi::PJRT_Buffer_Type_S8},
    {DType::kS16, abi::PJRT_Buffer_Type_S16},
    {DType::kS32, abi::PJRT_Buffer_Type_S32},
    {DType::kS64, abi::PJRT_Buffer_Type_S64},
    {DType::kU1, abi::PJRT_Buffer_Type_U1},
    {DType::kU2, abi::PJRT_Buffer_Type_U2},
    {DType::kU4, abi::PJRT_Buffer_Type_U4},
    {DType::kU8, abi::PJRT_Buffer_Type_U8},
    {DType::kU16, abi::PJRT_Buffer_Type_U16},
    {DType::kU32, abi::PJRT_Buffer_Type_U32},
    {DType::kU64, abi::PJRT_Buffer_Type_U64},
    {DType::kF16, abi::PJRT_Buffer_Type_F16},
    {DType::kF32, abi::PJRT_Buffer_Type_F32},
    {DType::kF64, abi::PJRT_Buffer_Type_F64},
    {DType::kBF16, abi::PJRT_Buffer_Type_BF16},
    {DType::kC64, abi::PJRT_Buffer_Type_C64},
    {DType::kC128, abi::PJRT_Buffer_Type_C128},
    {DType::kF8E5M2, abi::PJRT_Buffer_Type_F8E5M2},
    {DType::kF8E4M3FN, abi::PJRT_Buffer_Type_F8E4M3FN},
    {DType::kF8E4M3B11FNUZ, abi::PJRT_Buffer_Type_F8E4M3B11FNUZ},
    {DType::kF8E5M2FNUZ, abi::PJRT_Buffer_Type_F8E5M2FNUZ},
    {DType::kF8E4M3FNUZ, abi::PJRT_Buffer_Type_F8E4M3FNUZ},
    {DType::kF8E4M3, abi::PJRT_Buffer_Type_F8E4M3},
    {DType::kF8E3M4, abi::PJRT_Buffer_Type_F8E3M4},
    {DType::kF8E8M0FNU, abi::PJRT_Buffer_Type_F8E8M0FNU},
    {DType::kF4E2M1FN, abi::PJRT_Buffer_Type_F4E2M1FN},
    {DType::kToken, abi::PJRT_Buffer_Type_TOKEN},
};

Value ReadValue(const abi::PJRT_NamedValue& value) {
  switch (value.type) {
    case abi::PJRT_NamedValue_kString:
      return MakeString(value.string_value, value.value_size);
    case abi::PJRT_NamedValue_kInt64:
      return value.int64_value;
    case abi::PJRT_NamedValue_kInt64List:
      return std::vector<int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
    case abi::PJRT_NamedValue_kFloat:
      return value.float_value;
    case abi::PJRT_NamedValue_kBool:
      return value.bool_value;
  }
  return std::string("(value of an unknown type)");
}

struct ValueWriter {
  abi::PJRT_NamedValue& out;
  void operator()(const std::string& value) const {
    out.type = abi::PJRT_NamedValue_kString;
    out.string_value = value.data();
    out.value_size = value.size();
  }
  void operator()(int64_t value) const {
    out.type = abi::PJRT_NamedValue_kInt64;
    out.int64_value = value;
  }
  void operator()(const std::vector<int64_t>& value) const {
    out.type = abi::PJRT_NamedValue_kInt64List;
    out.int64_array_value = value.data();
    out.value_size = value.size();
  }
  void operator()(float value) const {
    out.type = abi::PJRT_NamedValue_kFloat;
    out.float_value = value;
  }
  void operator()(bool value) const {
    out.type = abi::PJRT_NamedValue_kBool;
    out.bool_value = value;
  }
};

}  // namespace

absl::Status TakeStatus(const abi::PJRT_Api* api, abi::PJRT_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  auto code = MakeArgs<abi::PJRT_Error_GetCode_Args>();
  code.error = error;
  // An error about the error has no more information; it is dropped, and the first one is unknown.
  if (abi::PJRT_Error* second = api->PJRT_Error_GetCode(&code); second != nullptr) {
    auto destroy_second = MakeArgs<abi::PJRT_Error_Destroy_Args>();
    destroy_second.error = second;
    api->PJRT_Error_Destroy(&destroy_second);
    code.code = static_cast<int>(absl::StatusCode::kUnknown);
  }
  auto message = MakeArgs<abi::PJRT_Error_Message_Args>();
  message.error = error;
  api->PJRT_Error_Message(&message);
  const bool known = code.code > 0 && code.code <= 16;
  absl::Status status(known ? static_cast<absl::StatusCode>(code.code) : absl::StatusCode::kUnknown,
                      MakeString(message.message, message.message_size));
  auto destroy = MakeArgs<abi::PJRT_Error_Destroy_Args>();
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  return status;
}

NamedValues ReadNamedValues(const abi::PJRT_NamedValue* values, size_t count) {
  NamedValues result;
  for (size_t i = 0; i < count; ++i) {
    result.emplace(MakeString(values[i].name, values[i].name_size), ReadValue(values[i]));
  }
  return result;
}

std::vector<abi::PJRT_NamedValue> WriteNamedValues(const NamedValues& values) {
  std::vector<abi::PJRT_NamedValue> result;
  for (const auto& [name, value] : values) {
    auto out = MakeArgs<abi::PJRT_NamedValue>();
    out.name = name.data();
    out.name_size = name.size();
    out.value_size = 1;
    std::visit(ValueWriter{out}, value);
    result.push_back(out);
  }
  return result;
}

absl::StatusOr<abi::PJRT_Buffer_Type> ToBufferType(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.type;
  }
  return absl::UnimplementedError(fmt::format("arrays of element type {} can't be on a device", Name(dtype)));
}

absl::StatusOr<DType> FromBufferType(abi::PJRT_Buffer_Type type) {
  for (const TypePair& pair : kTypes) {
    if (pair.type == type) return pair.dtype;
  }
  return absl::UnimplementedError(
      fmt::format("the plug-in has an array of element type {}, which is not known", static_cast<int>(type)));
}

abi::PJRT_Buffer_MemoryLayout WriteLayout(const Layout& layout) {
  auto result = MakeArgs<abi::PJRT_Buffer_MemoryLayout>();
  result.type = abi::PJRT_Buffer_MemoryLayout_Type_Tiled;
  result.tiled = MakeArgs<abi::PJRT_Buffer_MemoryLayout_Tiled>();
  result.tiled.minor_to_major = layout.minor_to_major.data();
  result.tiled.minor_to_major_size = layout.minor_to_major.size();
  return result;
}

}  // namespace switchtower::pjrt
