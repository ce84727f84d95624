// One array on one device.
//
// Place:    pjrt; made by Client::BufferFromHost and LoadedExecutable::Execute.
// Threads:  const methods from any thread.
// Lifetime: owns the plug-in's buffer and holds its client. What is queued on it when it dies still runs.
// Errors:   the plug-in's; a buffer whose producer failed gives that error from ready and host events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pjrt/client.h"
#include "pjrt/event.h"

namespace switchtower::pjrt {

namespace abi {
struct PJRT_Buffer;
}  // namespace abi

class Buffer {
 public:
  Buffer(std::shared_ptr<Client> client, abi::PJRT_Buffer* buffer);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // Shape, device and memory stay readable after Delete.
  absl::StatusOr<Shape> GetShape() const;
  absl::StatusOr<Layout> GetLayout() const;
  absl::StatusOr<const Device*> GetDevice() const;
  absl::StatusOr<const Memory*> GetMemory() const;
  absl::StatusOr<int64_t> OnDeviceBytes() const;

  // When the value (or its error) is there.
  absl::StatusOr<Event> ReadyEvent() const;

  // Bytes that ToHost writes: sub-byte elements take what the plug-in makes of them.
  absl::StatusOr<int64_t> HostBytes(const std::optional<Layout>& layout = std::nullopt) const;
  // Writes the value, dense and in `layout` (row major without), to `destination`, which must stay valid until
  // the event. `bytes` must be at least HostBytes().
  absl::StatusOr<Event> ToHost(void* destination, int64_t bytes,
                               const std::optional<Layout>& layout = std::nullopt) const;

  absl::StatusOr<Buffer> CopyToDevice(const Device& device) const;
  absl::StatusOr<Buffer> CopyToMemory(const Memory& memory) const;

  // Gives the memory back now; the object stays, deleted. Donation to an execution does the same.
  absl::Status Delete();
  bool IsDeleted() const;

  // Where the bytes are, for plug-ins whose memory the host can read (CPU). The caller keeps the buffer alive
  // and undonated, and waits for ReadyEvent first.
  absl::StatusOr<const void*> UnsafePointer() const;
  bool IsOnCpu() const;

  abi::PJRT_Buffer* handle() const { return buffer_; }
  Client& client() const { return *client_; }

 private:
  void Reset();

  std::shared_ptr<Client> client_;
  abi::PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace switchtower::pjrt
