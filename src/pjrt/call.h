// Helpers of this folder for calls over the C ABI: arguments, errors, strings, named values, element types.
//
// Place:    pjrt; private to the folder's sources.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pjrt/abi.h"
#include "pjrt/plugin.h"
#include "types/dtype.h"
#include "types/shape.h"

namespace switchtower::pjrt {

// Zeroed arguments that carry their size.
template <typename Args>
Args MakeArgs() {
  Args args = {};
  args.struct_size = sizeof(Args);
  return args;
}

// Turns the error into a status with its code and message, and destroys it. Null is OK.
absl::Status TakeStatus(const abi::PJRT_Api* api, abi::PJRT_Error* error);

// Calls a function of the table.
template <typename Args>
absl::Status Call(const abi::PJRT_Api* api, abi::PJRT_Error* (*function)(Args*), Args& args) {
  return TakeStatus(api, function(&args));
}

inline std::string MakeString(const char* data, size_t size) {
  return data == nullptr ? std::string() : std::string(data, size);
}

NamedValues ReadNamedValues(const abi::PJRT_NamedValue* values, size_t count);
// The result points into `values`.
std::vector<abi::PJRT_NamedValue> WriteNamedValues(const NamedValues& values);

absl::StatusOr<abi::PJRT_Buffer_Type> ToBufferType(DType dtype);
absl::StatusOr<DType> FromBufferType(abi::PJRT_Buffer_Type type);

// Points into `layout`.
abi::PJRT_Buffer_MemoryLayout WriteLayout(const Layout& layout);

}  // namespace switchtower::pjrt
