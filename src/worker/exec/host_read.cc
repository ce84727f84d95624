#include "worker/exec/host_read.h"

#include <utility>

#include <fmt/format.h>

#include "base/net/payload.h"

namespace switchtower {

void ReadDense(Engine& engine, std::shared_ptr<const EntryPin> pin,
               absl::AnyInvocable<void(absl::StatusOr<DenseBytes>)> done) {
  const BufferEntry::Content content = pin->entry()->content();
  if (content.bytes != nullptr) {
    return std::move(done)(DenseBytes{*content.bytes, content.bytes, Shape{DType::kString, {}}});
  }
  if (content.buffer == nullptr) return std::move(done)(content.error);
  const Shape& shape = content.buffer->shape();
  const int64_t size = shape.host_bytes();
  if (engine.capabilities().host_readable && content.buffer->layout().IsDefault()) {
    absl::StatusOr<EngineBuffer::View> view = content.buffer->HostView();
    if (view.ok() && !view->packed && view->size == size) {
      const std::string_view bytes(static_cast<const char*>(view->data), static_cast<size_t>(size));
      return std::move(done)(DenseBytes{bytes, std::move(pin), shape});
    }
  }
  std::shared_ptr<char> memory = AllocateBytes(static_cast<size_t>(size));
  if (memory == nullptr) {
    return std::move(done)(absl::ResourceExhaustedError(
        fmt::format("this worker's host has no memory to read {} into, {} bytes", shape.ToString(), size)));
  }
  char* const to = memory.get();
  engine.ToHost(content.buffer, to, size, std::nullopt,
                [pin = std::move(pin), memory = std::move(memory), shape, size,
                 done = std::move(done)](absl::Status status) mutable {
                  if (!status.ok()) return std::move(done)(std::move(status));
                  const std::string_view bytes(memory.get(), static_cast<size_t>(size));
                  std::move(done)(DenseBytes{bytes, std::move(memory), std::move(shape)});
                });
}

}  // namespace switchtower
