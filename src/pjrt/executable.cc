#include "pjrt/executable.h"

#include <utility>

#include "base/status_macros.h"
#include "pjrt/abi_extensions.h"
#include "pjrt/call.h"

namespace switchtower::pjrt {

ExecuteContext::ExecuteContext(std::shared_ptr<Client> client, abi::PJRT_ExecuteContext* context)
    : client_(std::move(client)), context_(context) {}

ExecuteContext::ExecuteContext(ExecuteContext&& other) noexcept
    : client_(std::move(other.client_)), context_(std::exchange(other.context_, nullptr)) {}

ExecuteContext& ExecuteContext::operator=(ExecuteContext&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(context_, other.context_);
  return *this;
}

ExecuteContext::~ExecuteContext() {
  if (context_ == nullptr) return;
  auto args = MakeArgs<abi::PJRT_ExecuteContext_Destroy_Args>();
  args.context = context_;
  Call(client_->api(), client_->api()->PJRT_ExecuteContext_Destroy, args).IgnoreError();
}

absl::Status ExecuteContext::AddUserData(int64_t type_id, void* data) {
  if (!client_->plugin().has_ffi()) return absl::UnimplementedError("the plug-in has no FFI extension");
  const auto* ffi =
      reinterpret_cast<const abi::PJRT_FFI_Extension*>(client_->plugin().FindExtension(abi::PJRT_Extension_Type_FFI));
  auto args = MakeArgs<abi::PJRT_FFI_UserData_Add_Args>();
  args.context = context_;
  args.user_data = {type_id, data};
  return Call(client_->api(), ffi->user_data_add, args);
}

LoadedExecutable::LoadedExecutable(std::shared_ptr<Client> client, abi::PJRT_LoadedExecutable* executable)
    : client_(std::move(client)), executable_(executable) {}

LoadedExecutable::LoadedExecutable(LoadedExecutable&& other) noexcept
    : client_(std::move(other.client_)),
      executable_(std::exchange(other.executable_, nullptr)),
      num_outputs_(other.num_outputs_) {}

LoadedExecutable& LoadedExecutable::operator=(LoadedExecutable&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(executable_, other.executable_);
  std::swap(num_outputs_, other.num_outputs_);
  return *this;
}

LoadedExecutable::~LoadedExecutable() {
  if (executable_ == nullptr) return;
  auto args = MakeArgs<abi::PJRT_LoadedExecutable_Destroy_Args>();
  args.executable = executable_;
  Call(client_->api(), client_->api()->PJRT_LoadedExecutable_Destroy, args).IgnoreError();
}

absl::StatusOr<Executable> LoadedExecutable::GetExecutable() const {
  auto args = MakeArgs<abi::PJRT_LoadedExecutable_GetExecutable_Args>();
  args.loaded_executable = executable_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_LoadedExecutable_GetExecutable, args));
  return Executable(client_, args.executable);
}

absl::Status LoadedExecutable::ReadOutputCount() {
  ASSIGN_OR_RETURN(const Executable executable, GetExecutable());
  ASSIGN_OR_RETURN(num_outputs_, executable.NumOutputs());
  return absl::OkStatus();
}

absl::StatusOr<ExecuteResult> LoadedExecutable::Execute(const ExecuteRequest& request) const {
  auto options = MakeArgs<abi::PJRT_ExecuteOptions>();
  options.launch_id = request.launch_id;
  options.non_donatable_input_indices = request.non_donatable_inputs.data();
  options.num_non_donatable_input_indices = request.non_donatable_inputs.size();
  options.context = request.context == nullptr ? nullptr : request.context->handle();

  std::vector<abi::PJRT_Buffer*> arguments;
  arguments.reserve(request.arguments.size());
  for (const Buffer* buffer : request.arguments) arguments.push_back(buffer->handle());
  abi::PJRT_Buffer* const* const argument_list = arguments.data();
  std::vector<abi::PJRT_Buffer*> outputs(static_cast<size_t>(num_outputs_));
  abi::PJRT_Buffer** const output_list = outputs.data();
  abi::PJRT_Event* event = nullptr;

  auto args = MakeArgs<abi::PJRT_LoadedExecutable_Execute_Args>();
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &output_list;
  args.device_complete_events = &event;
  args.execute_device = request.device == nullptr ? nullptr : request.device->handle;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_LoadedExecutable_Execute, args));
  ExecuteResult result;
  result.outputs.reserve(outputs.size());
  for (abi::PJRT_Buffer* buffer : outputs) result.outputs.emplace_back(client_, buffer);
  if (event != nullptr) result.completion = Event(client_->api(), event);
  return result;
}

}  // namespace switchtower::pjrt
