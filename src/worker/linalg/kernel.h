// A kernel as an XLA FFI handler.
//
//   template <ffi::DataType kType>
//   struct Cholesky {
//     static auto Signature() { return ffi::Ffi::Bind().Arg<..>()...; }  // jaxlib's, in jaxlib's order
//     static absl::Status Run(...);                                      // checks, then computes
//   };
//   HandlersOf<Cholesky>("potrf", "potrf")    // lapack_{s,d,c,z}potrf_ffi
//
// XLA's decoding checks the number of operands and results, their element types, and the attributes' names and types;
// the kernel checks the rest (operands.h).
//
// Place:    worker/linalg, for the kernels alone.
// Threads:  XLA calls handlers from its own threads, for all devices at once. Kernels have no state.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/linalg/lapack.h"
#include "worker/linalg/native_handlers.h"
#include "worker/linalg/operands.h"
#include "xla/ffi/api/ffi.h"

namespace xla::ffi {

// absl's and XLA's codes have the same numbers.
template <ExecutionStage stage>
struct ResultEncoding<stage, absl::Status> {
  static XLA_FFI_Error* Encode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext*, const absl::Status& status) {
    if (status.ok()) return nullptr;
    return internal::CreateError(api, Error(static_cast<XLA_FFI_Error_Code>(status.code()),
                                            std::string(status.message().data(), status.message().size())));
  }
};

}  // namespace xla::ffi

namespace switchtower::linalg {

namespace ffi = xla::ffi;

inline constexpr ffi::DataType kInfo = ffi::DataType::S32;

template <typename Buffer>
Dims DimsOf(const Buffer& buffer) {
  const auto dims = buffer.dimensions();
  return Dims(dims.begin(), dims.size());
}
// By value: XLA's handle can't be read through a const reference.
template <typename Buffer>
Dims DimsOf(ffi::Result<Buffer> buffer) {
  return DimsOf(*buffer);
}

template <typename Kernel>
XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) {
  // A lambda, since Run may be a template.
  static auto* const handler =
      Kernel::Signature().To([](auto... arguments) { return Kernel::Run(std::move(arguments)...); }).release();
  return handler->Call(frame);
}

template <typename Kernel>
NativeHandler Handler(std::string target) {
  XLA_FFI_Handler* const handler = &Call<Kernel>;
  return {std::move(target), reinterpret_cast<void*>(handler)};
}

// One handler for each element type; `real` and `complex` are the routine's names after the type's letter.
template <template <ffi::DataType> typename Kernel>
std::vector<NativeHandler> HandlersOf(std::string_view real, std::string_view complex) {
  const auto name = [](char type, std::string_view routine) {
    return std::string("lapack_") + type + std::string(routine) + "_ffi";
  };
  return {Handler<Kernel<ffi::DataType::F32>>(name('s', real)), Handler<Kernel<ffi::DataType::F64>>(name('d', real)),
          Handler<Kernel<ffi::DataType::C64>>(name('c', complex)),
          Handler<Kernel<ffi::DataType::C128>>(name('z', complex))};
}

template <typename... Others>
std::vector<NativeHandler> Joined(std::vector<NativeHandler> handlers, const Others&... others) {
  (handlers.insert(handlers.end(), others.begin(), others.end()), ...);
  return handlers;
}

}  // namespace switchtower::linalg
