// What our handlers need of XLA's FFI beyond its own headers: the user data by its number, futures that are completed
// without a promise between, and handlers that take whatever operands come.
//
// Place:    worker/collective, for the handlers here and in worker/callback.
// Threads:  AsyncCall::Complete from any thread, once.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "base/log.h"
#include "types/dtype.h"
#include "worker/exec/launch_context.h"
#include "xla/ffi/api/ffi.h"

namespace switchtower::ffi_binding {

// Tags for Ffi::Bind().Ctx<...>().
struct Api {};
struct Launch {};

inline std::atomic<int64_t>& LaunchContextType() {
  static std::atomic<int64_t> type{0};
  return type;
}

// XLA's numbers are DType's but for the types that came last.
inline DType DTypeOf(xla::ffi::DataType type) {
  switch (static_cast<XLA_FFI_DataType>(type)) {
    case XLA_FFI_DataType_S1:
      return DType::kS1;
    case XLA_FFI_DataType_U1:
      return DType::kU1;
    case XLA_FFI_DataType_F4E2M1FN:
      return DType::kF4E2M1FN;
    case XLA_FFI_DataType_F8E8M0FNU:
      return DType::kF8E8M0FNU;
    default:
      return static_cast<DType>(type);
  }
}

// An FFI future in the making. absl's and XLA's codes have the same numbers.
class AsyncCall {
 public:
  // An error is XLA's: pass it on.
  static std::variant<XLA_FFI_Error*, AsyncCall> Create(const XLA_FFI_Api* api) {
    XLA_FFI_Future_Create_Args args{XLA_FFI_Future_Create_Args_STRUCT_SIZE, nullptr, nullptr};
    if (XLA_FFI_Error* error = api->XLA_FFI_Future_Create(&args)) return error;
    return AsyncCall(api, args.future);
  }

  XLA_FFI_Future* future() const { return future_; }

  void Complete(const absl::Status& status) const {
    XLA_FFI_Error* failed = nullptr;
    if (status.ok()) {
      XLA_FFI_Future_SetAvailable_Args args{XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, nullptr, future_};
      failed = api_->XLA_FFI_Future_SetAvailable(&args);
    } else {
      XLA_FFI_Future_SetError_Args args{XLA_FFI_Future_SetError_Args_STRUCT_SIZE, nullptr, future_,
                                        ToError(api_, status)};
      failed = api_->XLA_FFI_Future_SetError(&args);
    }
    if (failed == nullptr) return;
    LogError("completing an asynchronous call failed: {}", xla::ffi::internal::GetErrorMessage(api_, failed));
    xla::ffi::internal::DestroyError(api_, failed);
  }

  static XLA_FFI_Error* ToError(const XLA_FFI_Api* api, const absl::Status& status) {
    return xla::ffi::internal::CreateError(
        api, xla::ffi::Error(static_cast<XLA_FFI_Error_Code>(status.code()), std::string(status.message())));
  }

 private:
  AsyncCall(const XLA_FFI_Api* api, XLA_FFI_Future* future) : api_(api), future_(future) {}
  const XLA_FFI_Api* api_;
  XLA_FFI_Future* future_;
};

using AsyncResult = std::variant<XLA_FFI_Error*, XLA_FFI_Future*>;

}  // namespace switchtower::ffi_binding

namespace xla::ffi {

template <>
struct CtxDecoding<switchtower::ffi_binding::Api> {
  using Type = const XLA_FFI_Api*;
  static std::optional<Type> Decode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext*, DiagnosticEngine&) {
    return api;
  }
};

template <>
struct CtxDecoding<switchtower::ffi_binding::Launch> {
  using Type = switchtower::LaunchContext*;
  static std::optional<Type> Decode(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* ctx,
                                    DiagnosticEngine& diagnostic) {
    XLA_FFI_TypeId type{switchtower::ffi_binding::LaunchContextType().load(std::memory_order_relaxed)};
    XLA_FFI_ExecutionContext_Get_Args args{XLA_FFI_ExecutionContext_Get_Args_STRUCT_SIZE, nullptr, ctx, &type, nullptr};
    if (XLA_FFI_Error* error = api->XLA_FFI_ExecutionContext_Get(&args)) {
      diagnostic.Emit("the execution has no launch context: ") << internal::GetErrorMessage(api, error);
      internal::DestroyError(api, error);
      return std::nullopt;
    }
    if (args.data == nullptr) return diagnostic.Emit("the execution has no launch context");
    return static_cast<Type>(args.data);
  }
};

template <ExecutionStage stage>
struct ResultEncoding<stage, switchtower::ffi_binding::AsyncResult> {
  static switchtower::ffi_binding::AsyncResult Encode(const XLA_FFI_Api*, XLA_FFI_ExecutionContext*,
                                                      switchtower::ffi_binding::AsyncResult result) {
    return result;
  }
};

}  // namespace xla::ffi

namespace switchtower::ffi_binding {

// `kHandle(api, launch, operands, results, attributes)` as a handler.
template <auto kHandle>
XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) {
  static auto* const handler =
      xla::ffi::Ffi::Bind().Ctx<Api>().Ctx<Launch>().RemainingArgs().RemainingRets().Attrs().To(kHandle).release();
  return handler->Call(frame);
}

}  // namespace switchtower::ffi_binding
