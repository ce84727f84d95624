// Buffers and programs of PjrtEngine.
//
// Place:    worker/engine; private to the engine's sources.
// Threads:  as EngineBuffer and EngineProgram say.
// Lifetime: they hold the PJRT client.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "pjrt/buffer.h"
#include "pjrt/executable.h"
#include "worker/engine/engine.h"

namespace switchtower {

// What doesn't change in a buffer's life; shared by all outputs of a program.
struct BufferDescription {
  Shape shape;
  Layout layout;
  std::string memory_kind;
  int64_t bytes = 0;
};
absl::StatusOr<std::shared_ptr<const BufferDescription>> DescribeBuffer(const pjrt::Buffer& buffer);

class PjrtEngineBuffer : public EngineBuffer {
 public:
  PjrtEngineBuffer(pjrt::Buffer buffer, int32_t device, std::shared_ptr<const BufferDescription> description,
                   bool host_readable)
      : buffer_(std::move(buffer)),
        device_(device),
        description_(std::move(description)),
        host_readable_(host_readable) {}

  int32_t device() const override { return device_; }
  const Shape& shape() const override { return description_->shape; }
  const Layout& layout() const override { return description_->layout; }
  const std::string& memory_kind() const override { return description_->memory_kind; }
  int64_t bytes() const override { return description_->bytes; }
  void OnReady(StatusCallback callback) override;
  bool IsDeleted() const override { return buffer_.IsDeleted(); }
  void Delete() override;
  absl::StatusOr<View> HostView() override;

  const pjrt::Buffer& pjrt_buffer() const { return buffer_; }

 private:
  pjrt::Buffer buffer_;
  const int32_t device_;
  const std::shared_ptr<const BufferDescription> description_;
  const bool host_readable_;
};

class PjrtProgram : public EngineProgram {
 public:
  PjrtProgram(pjrt::LoadedExecutable executable, std::string name)
      : executable_(std::move(executable)), name_(std::move(name)) {}

  int64_t num_outputs() const override { return executable_.num_outputs(); }
  const std::string& name() const override { return name_; }
  const pjrt::LoadedExecutable& executable() const { return executable_; }

  // Descriptions of the outputs: read from those of the first execution, the same ever after.
  absl::StatusOr<std::vector<std::shared_ptr<const BufferDescription>>> Describe(
      const std::vector<pjrt::Buffer>& outputs) const EXCLUDES(mutex_);

 private:
  const pjrt::LoadedExecutable executable_;
  const std::string name_;
  mutable Mutex mutex_;
  mutable std::vector<std::shared_ptr<const BufferDescription>> outputs_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
