#include "worker/callback/host_callback_handler.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "hlo/host_callbacks.h"
#include "worker/collective/ffi_binding.h"
#include "worker/collective/fp_mode.h"
#include "worker/exec/host_call_table.h"

namespace switchtower {
namespace {

namespace ffi = xla::ffi;
using ffi_binding::AsyncCall;
using ffi_binding::AsyncResult;

// A call travels in one frame.
constexpr int64_t kBytesMax = int64_t{1} << 31;

template <typename Buffer>
absl::StatusOr<Shape> ShapeOf(const Buffer& buffer) {
  Shape shape{ffi_binding::DTypeOf(buffer.element_type()), {}};
  if (shape.dtype != DType::kToken) shape.dims.assign(buffer.dimensions().begin(), buffer.dimensions().end());
  RETURN_IF_ERROR(ValidateShape(shape));
  return shape;
}

absl::Status CheckSize(const std::vector<Shape>& shapes) {
  int64_t bytes = 0;
  for (const Shape& shape : shapes) bytes = AddBytes(bytes, PackedBytes(shape));
  if (bytes <= kBytesMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "a host callback moves {} bytes, at most {} are possible: pass what the function needs, or split the call", bytes,
      kBytesMax));
}

absl::Status ReadBuffers(ffi::RemainingArgs args, ffi::RemainingRets rets, HostCall& call,
                         std::vector<char*>& outputs) {
  std::vector<const char*> inputs;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto buffer = args.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return absl::InvalidArgumentError(buffer.error().message());
    ASSIGN_OR_RETURN(call.operands.emplace_back(), ShapeOf(*buffer));
    inputs.push_back(static_cast<const char*>(buffer->untyped_data()));
  }
  for (size_t i = 0; i < rets.size(); ++i) {
    auto buffer = rets.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return absl::InvalidArgumentError(buffer.error().message());
    ASSIGN_OR_RETURN(call.results.emplace_back(), ShapeOf(**buffer));
    outputs.push_back(static_cast<char*>((*buffer)->untyped_data()));
  }
  RETURN_IF_ERROR(CheckSize(call.operands));
  RETURN_IF_ERROR(CheckSize(call.results));
  auto data = std::make_shared<std::string>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t bytes = PackedBytes(call.operands[i]);
    if (bytes > 0) data->append(inputs[i], static_cast<size_t>(bytes));
  }
  call.data = std::move(data);
  return absl::OkStatus();
}

AsyncResult Handle(const XLA_FFI_Api* api, LaunchContext* launch, ffi::RemainingArgs args, ffi::RemainingRets rets,
                   ffi::Dictionary attributes) {
  const auto index = attributes.get<uint64_t>(kHostCallbackIndex);
  if (index.has_error() || launch->host_calls == nullptr) {
    return AsyncCall::ToError(api, absl::InvalidArgumentError("a host callback without its number"));
  }
  HostCall call;
  call.launch = launch->id;
  call.session = launch->session;
  call.rank = launch->rank;
  call.callback = *index;
  std::vector<char*> outputs;
  if (absl::Status status = ReadBuffers(args, rets, call, outputs); !status.ok()) {
    return AsyncCall::ToError(api, status);
  }
  const auto created = AsyncCall::Create(api);
  if (std::holds_alternative<XLA_FFI_Error*>(created)) return std::get<XLA_FFI_Error*>(created);
  const AsyncCall async = std::get<AsyncCall>(created);
  launch->host_calls->Begin(std::move(call), std::move(outputs), [async](absl::Status status) {
    // The program goes on on this thread.
    ScopedXlaFloatMode mode;
    async.Complete(status);
  });
  return async.future();
}

}  // namespace

absl::Status RegisterHostCallbacks(Engine& engine) {
  for (const std::string& target : HostCallbackTargets()) {
    RETURN_IF_ERROR(engine.RegisterFfiHandler(target, reinterpret_cast<void*>(&ffi_binding::Call<&Handle>)));
  }
  return absl::OkStatus();
}

}  // namespace switchtower
