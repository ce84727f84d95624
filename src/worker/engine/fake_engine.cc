#include "worker/engine/fake_engine.h"

#include <atomic>
#include <utility>

#include <fmt/core.h>

#include "base/status_macros.h"
#include "worker/engine/fake_programs.h"
#include "worker/engine/host_layout.h"

namespace switchtower {

struct FakeEngine::Usage {
  std::atomic<int64_t> buffers{0};
  std::atomic<int64_t> bytes{0};
};

struct FakeEngine::Program : EngineProgram {
  int64_t num_outputs() const override { return outputs; }
  const std::string& name() const override { return text; }

  std::string text;
  int64_t outputs = 0;
  std::vector<int64_t> donated;
  FakeFunction function;
};

namespace {

const char kDefaultKind[] = "device";

// Shares the engine's Usage.
using Counter = std::shared_ptr<std::atomic<int64_t>>;

FakeValue MakeValue(const Shape& shape) { return {shape, std::vector<char>(static_cast<size_t>(shape.host_bytes()))}; }

// Bytes lie dense in layout().
class FakeBuffer : public EngineBuffer {
 public:
  // `shape` is what is expected; a value of another one changes it.
  FakeBuffer(Counter live, Counter used, int32_t device, std::string kind, const Shape& shape)
      : live_(std::move(live)),
        used_(std::move(used)),
        device_(device),
        kind_(std::move(kind)),
        shape_(shape),
        layout_(Layout::Default(shape.rank())) {
    live_->fetch_add(1);
  }
  ~FakeBuffer() override {
    live_->fetch_sub(1);
    used_->fetch_sub(static_cast<int64_t>(bytes_.size()));
  }

  int32_t device() const override { return device_; }
  const Shape& shape() const override { return shape_; }
  const Layout& layout() const override { return layout_; }
  const std::string& memory_kind() const override { return kind_; }
  int64_t bytes() const override { return shape_.host_bytes(); }

  void OnReady(StatusCallback callback) override {
    absl::Status status;
    {
      MutexLock lock(mutex_);
      if (pending_) {
        waiting_.push_back(std::move(callback));
        return;
      }
      status = status_;
    }
    callback(status);
  }

  bool IsDeleted() const override {
    MutexLock lock(mutex_);
    return deleted_;
  }

  void Delete() override {
    MutexLock lock(mutex_);
    deleted_ = true;
  }

  absl::StatusOr<View> HostView() override {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(Usable());
    return View{bytes_.data(), static_cast<int64_t>(bytes_.size()), false};
  }

  absl::StatusOr<FakeValue> Read() const {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(Usable());
    FakeValue value = MakeValue(shape_);
    CopyElements(shape_, bytes_.data(), layout_.ByteStrides(shape_), value.bytes.data(),
                 Layout::Default(shape_.rank()).ByteStrides(shape_));
    return value;
  }

  void Complete(absl::StatusOr<FakeValue> value, std::optional<Layout> layout) {
    std::vector<StatusCallback> callbacks;
    absl::Status status = value.status();
    {
      MutexLock lock(mutex_);
      if (value.ok()) {
        const Layout chosen = layout.value_or(Layout::Default(value->shape.rank()));
        // Not written where equal: others read them meanwhile.
        if (!(shape_ == value->shape)) shape_ = value->shape;
        if (!(layout_ == chosen)) layout_ = chosen;
        bytes_.resize(value->bytes.size());
        CopyElements(shape_, value->bytes.data(), Layout::Default(shape_.rank()).ByteStrides(shape_), bytes_.data(),
                     layout_.ByteStrides(shape_));
        used_->fetch_add(static_cast<int64_t>(bytes_.size()));
      }
      status_ = status;
      pending_ = false;
      callbacks.swap(waiting_);
    }
    for (StatusCallback& callback : callbacks) callback(status);
  }

 private:
  absl::Status Usable() const REQUIRES(mutex_) {
    if (deleted_) return absl::InvalidArgumentError("the fake buffer has been deleted or donated");
    if (pending_) return absl::FailedPreconditionError("the fake buffer has no value yet");
    return status_;
  }

  const Counter live_;
  const Counter used_;
  const int32_t device_;
  const std::string kind_;
  mutable Mutex mutex_;
  bool pending_ GUARDED_BY(mutex_) = true;
  bool deleted_ GUARDED_BY(mutex_) = false;
  absl::Status status_ GUARDED_BY(mutex_);
  std::vector<StatusCallback> waiting_ GUARDED_BY(mutex_);
  Shape shape_;
  Layout layout_;
  std::vector<char> bytes_;
};

FakeBuffer& AsFake(const EngineBufferPtr& buffer) { return static_cast<FakeBuffer&>(*buffer); }

}  // namespace

FakeEngine::FakeEngine(int32_t device_count)
    : device_count_(device_count),
      capabilities_{.host_readable = true},
      type_{"fake", "fake", "fake", {kDefaultKind, "pinned_host", "unpinned_host"}},
      usage_(std::make_shared<Usage>()) {
  RegisterFakePrograms(*this);
}

FakeEngine::~FakeEngine() { Release(); }

void FakeEngine::RegisterProgram(const std::string& name, int64_t num_outputs, std::vector<int64_t> donated,
                                 FakeFunction function) {
  auto program = std::make_shared<Program>();
  program->text = name;
  program->outputs = num_outputs;
  program->donated = std::move(donated);
  program->function = std::move(function);
  MutexLock lock(mutex_);
  programs_[name] = std::move(program);
}

void FakeEngine::Hold() {
  MutexLock lock(mutex_);
  held_ = true;
}

void FakeEngine::Release() {
  std::vector<absl::AnyInvocable<void()>> work;
  {
    MutexLock lock(mutex_);
    held_ = false;
    work.swap(waiting_);
  }
  for (auto& task : work) task();
}

std::vector<std::string> FakeEngine::executed() const {
  MutexLock lock(mutex_);
  return executed_;
}

void* FakeEngine::FindHandler(const std::string& target) const {
  MutexLock lock(mutex_);
  const auto found = handlers_.find(target);
  return found == handlers_.end() ? nullptr : found->second;
}

int64_t FakeEngine::live_buffers() const { return usage_->buffers.load(); }

std::string FakeEngine::DeviceName(int32_t device) const { return fmt::format("fake {}", device); }

absl::StatusOr<Engine::MemoryUse> FakeEngine::GetMemoryUse(int32_t) const {
  return MemoryUse{usage_->bytes.load(), std::nullopt, std::nullopt};
}

absl::StatusOr<EngineProgramPtr> FakeEngine::LoadProgram(std::string_view executable) {
  MutexLock lock(mutex_);
  const auto found = programs_.find(std::string(executable));
  if (found == programs_.end()) {
    return absl::InvalidArgumentError(fmt::format("no fake program is called {}", executable));
  }
  return EngineProgramPtr(found->second);
}

absl::StatusOr<std::vector<EngineBufferPtr>> FakeEngine::Execute(const EngineExecution& execution,
                                                                 StatusCallback done) {
  const auto program = std::static_pointer_cast<const Program>(execution.program);
  auto arguments = std::make_shared<std::vector<EngineBufferPtr>>(execution.arguments);
  std::vector<EngineBufferPtr> outputs;
  for (int64_t i = 0; i < program->outputs; ++i) {
    // Until the program has run, an output is thought to be like the argument at its place.
    const size_t like = static_cast<size_t>(i);
    outputs.push_back(std::make_shared<FakeBuffer>(
        Counter(usage_, &usage_->buffers), Counter(usage_, &usage_->bytes), execution.device, kDefaultKind,
        like < arguments->size() ? (*arguments)[like]->shape() : Shape{DType::kF32, {}}));
  }
  auto run = [program, arguments, outputs, device = execution.device, user_data = execution.user_data,
              non_donatable = execution.non_donatable, done = std::move(done)]() mutable {
    FakeCall call{device, {}, user_data};
    absl::StatusOr<std::vector<FakeValue>> results = std::vector<FakeValue>();
    for (const EngineBufferPtr& argument : *arguments) {
      auto value = AsFake(argument).Read();
      if (!value.ok()) {
        results = value.status();
        break;
      }
      call.arguments.push_back(*std::move(value));
    }
    for (const int64_t index : program->donated) {
      if (index >= static_cast<int64_t>(arguments->size())) {
        results = absl::InvalidArgumentError(fmt::format("fake program {} was given {} arguments and donates number {}",
                                                         program->text, arguments->size(), index));
        break;
      }
      bool kept = false;
      for (const int64_t other : non_donatable) kept = kept || other == index;
      if (!kept) arguments->at(static_cast<size_t>(index))->Delete();
    }
    if (results.ok()) results = program->function(call);
    if (results.ok() && results->size() != outputs.size()) {
      results = absl::InternalError(
          fmt::format("fake program {} gave {} results instead of {}", program->text, results->size(), outputs.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      AsFake(outputs[i])
          .Complete(
              results.ok() ? absl::StatusOr<FakeValue>(results->at(i)) : absl::StatusOr<FakeValue>(results.status()),
              std::nullopt);
    }
    done(results.status());
  };
  {
    MutexLock lock(mutex_);
    executed_.push_back(program->text);
    if (held_) {
      waiting_.push_back(std::move(run));
      return outputs;
    }
  }
  run();
  return outputs;
}

absl::StatusOr<EngineBufferPtr> FakeEngine::FromHost(int32_t device, const std::string& memory_kind,
                                                     const HostData& host, const std::optional<Layout>& layout) {
  RETURN_IF_ERROR(ValidateShape(host.shape));
  if (device < 0 || device >= device_count_) {
    return absl::InvalidArgumentError(fmt::format("no fake device {}", device));
  }
  FakeValue value = MakeValue(host.shape);
  const std::vector<int64_t> dense = Layout::Default(host.shape.rank()).ByteStrides(host.shape);
  CopyElements(host.shape, static_cast<const char*>(host.data), host.byte_strides.empty() ? dense : host.byte_strides,
               value.bytes.data(), dense);
  auto buffer = std::make_shared<FakeBuffer>(Counter(usage_, &usage_->buffers), Counter(usage_, &usage_->bytes), device,
                                             memory_kind.empty() ? kDefaultKind : memory_kind, host.shape);
  buffer->Complete(std::move(value), layout);
  return EngineBufferPtr(std::move(buffer));
}

void FakeEngine::ToHost(const EngineBufferPtr& buffer, void* destination, int64_t size,
                        const std::optional<Layout>& layout, StatusCallback done) {
  buffer->OnReady([buffer, destination, size, layout, done = std::move(done)](absl::Status ready) mutable {
    if (!ready.ok()) return done(ready);
    auto value = AsFake(buffer).Read();
    if (!value.ok()) return done(value.status());
    if (size != value->shape.host_bytes()) {
      return done(
          absl::InvalidArgumentError(fmt::format("{} bytes for an array of {}", size, value->shape.host_bytes())));
    }
    const Layout dense = Layout::Default(value->shape.rank());
    CopyElements(value->shape, value->bytes.data(), dense.ByteStrides(value->shape), static_cast<char*>(destination),
                 layout.value_or(dense).ByteStrides(value->shape));
    done(absl::OkStatus());
  });
}

absl::StatusOr<EngineBufferPtr> FakeEngine::CopyToMemory(const EngineBufferPtr& buffer,
                                                         const std::string& memory_kind) {
  return CopyToDevice(buffer, buffer->device(), memory_kind);
}

absl::StatusOr<EngineBufferPtr> FakeEngine::CopyToDevice(const EngineBufferPtr& buffer, int32_t device,
                                                         const std::string& memory_kind) {
  auto copy = std::make_shared<FakeBuffer>(Counter(usage_, &usage_->buffers), Counter(usage_, &usage_->bytes), device,
                                           memory_kind.empty() ? kDefaultKind : memory_kind, buffer->shape());
  buffer->OnReady([buffer, copy](absl::Status ready) {
    copy->Complete(ready.ok() ? AsFake(buffer).Read() : absl::StatusOr<FakeValue>(ready), buffer->layout());
  });
  return EngineBufferPtr(std::move(copy));
}

absl::StatusOr<int64_t> FakeEngine::RegisterFfiType(const std::string& name) {
  MutexLock lock(mutex_);
  return types_.emplace(name, static_cast<int64_t>(types_.size()) + 1).first->second;
}

absl::Status FakeEngine::RegisterFfiHandler(const std::string& target, void* handler) {
  MutexLock lock(mutex_);
  handlers_[target] = handler;
  return absl::OkStatus();
}

}  // namespace switchtower
