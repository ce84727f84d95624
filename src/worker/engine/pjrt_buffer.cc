#include "worker/engine/pjrt_buffer.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "types/token_array.h"
#include "worker/engine/host_layout.h"

namespace switchtower {

absl::StatusOr<std::shared_ptr<const BufferDescription>> DescribeBuffer(const pjrt::Buffer& buffer) {
  auto description = std::make_shared<BufferDescription>();
  ASSIGN_OR_RETURN(description->shape, buffer.GetShape());
  const bool is_token = description->shape.dtype == DType::kToken;
  if (is_token) {
    description->shape = TokenArray();
    description->layout = Layout::Default(description->shape.rank());
  } else {
    ASSIGN_OR_RETURN(description->layout, buffer.GetLayout());
  }
  ASSIGN_OR_RETURN(const pjrt::Memory* memory, buffer.GetMemory());
  description->memory_kind = memory->kind;
  if (!is_token) {
    ASSIGN_OR_RETURN(description->bytes, buffer.OnDeviceBytes());
  }
  return std::shared_ptr<const BufferDescription>(std::move(description));
}

void PjrtEngineBuffer::OnReady(StatusCallback callback) {
  auto event = buffer_.ReadyEvent();
  if (!event.ok()) return callback(event.status());
  event->OnReady(std::move(callback));
}

void PjrtEngineBuffer::Delete() {
  const absl::Status status = buffer_.Delete();
  if (!status.ok()) LogWarn("deleting a buffer failed, {}", std::string(status.message()));
}

absl::StatusOr<EngineBuffer::View> PjrtEngineBuffer::HostView() {
  if (!host_readable_) return absl::UnimplementedError("the host can't read this device's memory in place");
  if (buffer_.IsDeleted()) return absl::InvalidArgumentError("the buffer has been deleted or donated");
  View view;
  view.size = bytes();
  view.packed = IsSubByte(shape().dtype) && bytes() == PackedBytes(shape().dtype, shape().elements());
  if (shape().elements() > 0) {
    ASSIGN_OR_RETURN(view.data, buffer_.UnsafePointer());
  }
  return view;
}

absl::StatusOr<std::vector<std::shared_ptr<const BufferDescription>>> PjrtProgram::Describe(
    const std::vector<pjrt::Buffer>& outputs) const {
  MutexLock lock(mutex_);
  if (outputs_.size() != outputs.size()) {
    std::vector<std::shared_ptr<const BufferDescription>> descriptions;
    for (const pjrt::Buffer& buffer : outputs) {
      ASSIGN_OR_RETURN(auto description, DescribeBuffer(buffer));
      descriptions.push_back(std::move(description));
    }
    outputs_ = std::move(descriptions);
  }
  return outputs_;
}

}  // namespace switchtower
