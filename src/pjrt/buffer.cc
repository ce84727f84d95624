#include "pjrt/buffer.h"

#include <utility>

#include "base/status_macros.h"
#include "pjrt/call.h"

namespace switchtower::pjrt {

Buffer::Buffer(std::shared_ptr<Client> client, abi::PJRT_Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), buffer_(std::exchange(other.buffer_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Reset();
    client_ = std::move(other.client_);
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

Buffer::~Buffer() { Reset(); }

void Buffer::Reset() {
  if (buffer_ == nullptr) return;
  auto args = MakeArgs<abi::PJRT_Buffer_Destroy_Args>();
  args.buffer = std::exchange(buffer_, nullptr);
  Call(client_->api(), client_->api()->PJRT_Buffer_Destroy, args).IgnoreError();
}

absl::StatusOr<Shape> Buffer::GetShape() const {
  const abi::PJRT_Api* api = client_->api();
  auto type = MakeArgs<abi::PJRT_Buffer_ElementType_Args>();
  type.buffer = buffer_;
  RETURN_IF_ERROR(Call(api, api->PJRT_Buffer_ElementType, type));
  Shape shape;
  ASSIGN_OR_RETURN(shape.dtype, FromBufferType(type.type));
  // Plug-ins abort when asked for the dimensions or the layout of what has none.
  if (shape.dtype == DType::kToken) return shape;
  auto dims = MakeArgs<abi::PJRT_Buffer_Dimensions_Args>();
  dims.buffer = buffer_;
  RETURN_IF_ERROR(Call(api, api->PJRT_Buffer_Dimensions, dims));
  shape.dims.assign(dims.dims, dims.dims + dims.num_dims);
  return shape;
}

absl::StatusOr<Layout> Buffer::GetLayout() const {
  const abi::PJRT_Api* api = client_->api();
  auto args = MakeArgs<abi::PJRT_Buffer_GetMemoryLayout_Args>();
  args.buffer = buffer_;
  RETURN_IF_ERROR(Call(api, api->PJRT_Buffer_GetMemoryLayout, args));
  if (args.layout.type != abi::PJRT_Buffer_MemoryLayout_Type_Tiled) {
    return absl::UnimplementedError("the plug-in describes a layout by strides");
  }
  const abi::PJRT_Buffer_MemoryLayout_Tiled& tiled = args.layout.tiled;
  Layout layout;
  layout.minor_to_major.assign(tiled.minor_to_major, tiled.minor_to_major + tiled.minor_to_major_size);
  return layout;
}

absl::StatusOr<const Device*> Buffer::GetDevice() const {
  auto args = MakeArgs<abi::PJRT_Buffer_Device_Args>();
  args.buffer = buffer_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_Device, args));
  const Device* device = client_->FindDevice(args.device);
  if (device == nullptr) return absl::InternalError("a buffer is on a device that its client doesn't have");
  return device;
}

absl::StatusOr<const Memory*> Buffer::GetMemory() const {
  auto args = MakeArgs<abi::PJRT_Buffer_Memory_Args>();
  args.buffer = buffer_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_Memory, args));
  const Memory* memory = client_->FindMemory(args.memory);
  if (memory == nullptr) return absl::InternalError("a buffer is in a memory that its client doesn't have");
  return memory;
}

absl::StatusOr<int64_t> Buffer::OnDeviceBytes() const {
  auto args = MakeArgs<abi::PJRT_Buffer_OnDeviceSizeInBytes_Args>();
  args.buffer = buffer_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_OnDeviceSizeInBytes, args));
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

absl::StatusOr<Event> Buffer::ReadyEvent() const {
  auto args = MakeArgs<abi::PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = buffer_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_ReadyEvent, args));
  return Event(client_->api(), args.event);
}

absl::StatusOr<int64_t> Buffer::HostBytes(const std::optional<Layout>& layout) const {
  auto args = MakeArgs<abi::PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer_;
  abi::PJRT_Buffer_MemoryLayout host_layout;
  if (layout.has_value()) {
    host_layout = WriteLayout(*layout);
    args.host_layout = &host_layout;
  }
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_ToHostBuffer, args));
  return static_cast<int64_t>(args.dst_size);
}

absl::StatusOr<Event> Buffer::ToHost(void* destination, int64_t bytes, const std::optional<Layout>& layout) const {
  // A null destination would ask for the size: an empty array's is never written, so any address will do.
  static char nowhere;
  Layout chosen;
  if (layout.has_value()) {
    chosen = *layout;
  } else {
    ASSIGN_OR_RETURN(const Shape shape, GetShape());
    chosen = Layout::Default(shape.rank());
  }
  abi::PJRT_Buffer_MemoryLayout host_layout = WriteLayout(chosen);
  auto args = MakeArgs<abi::PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer_;
  args.host_layout = &host_layout;
  args.dst = destination == nullptr ? &nowhere : destination;
  args.dst_size = static_cast<size_t>(bytes);
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_ToHostBuffer, args));
  return Event(client_->api(), args.event);
}

absl::StatusOr<Buffer> Buffer::CopyToDevice(const Device& device) const {
  auto args = MakeArgs<abi::PJRT_Buffer_CopyToDevice_Args>();
  args.buffer = buffer_;
  args.dst_device = device.handle;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_CopyToDevice, args));
  return Buffer(client_, args.dst_buffer);
}

absl::StatusOr<Buffer> Buffer::CopyToMemory(const Memory& memory) const {
  auto args = MakeArgs<abi::PJRT_Buffer_CopyToMemory_Args>();
  args.buffer = buffer_;
  args.dst_memory = memory.handle;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_CopyToMemory, args));
  return Buffer(client_, args.dst_buffer);
}

absl::Status Buffer::Delete() {
  auto args = MakeArgs<abi::PJRT_Buffer_Delete_Args>();
  args.buffer = buffer_;
  return Call(client_->api(), client_->api()->PJRT_Buffer_Delete, args);
}

bool Buffer::IsDeleted() const {
  auto args = MakeArgs<abi::PJRT_Buffer_IsDeleted_Args>();
  args.buffer = buffer_;
  return !Call(client_->api(), client_->api()->PJRT_Buffer_IsDeleted, args).ok() || args.is_deleted;
}

absl::StatusOr<const void*> Buffer::UnsafePointer() const {
  auto args = MakeArgs<abi::PJRT_Buffer_UnsafePointer_Args>();
  args.buffer = buffer_;
  RETURN_IF_ERROR(Call(client_->api(), client_->api()->PJRT_Buffer_UnsafePointer, args));
  return reinterpret_cast<const void*>(args.buffer_pointer);
}

bool Buffer::IsOnCpu() const {
  auto args = MakeArgs<abi::PJRT_Buffer_IsOnCpu_Args>();
  args.buffer = buffer_;
  return Call(client_->api(), client_->api()->PJRT_Buffer_IsOnCpu, args).ok() && args.is_on_cpu;
}

}  // namespace switchtower::pjrt
