// Programs, shardings and host buffers for tests and measurements of the controller: no compiler, no client.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "compiler/compile_service.h"
#include "controller/api/session.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/xla_data.pb.h"

namespace switchtower {

// Modules are the names of programs that the test registers; one named "held" waits until a session ends.
class FakeCompileService : public CompileService {
 public:
  void Compile(CompileRequest request, Done done) override {
    MutexLock lock(mutex_);
    if (request.module == "held") {
      held_.push_back(std::move(done));
      return;
    }
    auto it = programs_.find(request.module);
    if (it == programs_.end()) {
      done(absl::InvalidArgumentError("no such program: " + request.module));
    } else {
      done(it->second);
    }
  }
  void EndSession(SessionId session) override {
    std::vector<Done> held;
    {
      MutexLock lock(mutex_);
      ended_.push_back(session);
      held.swap(held_);
    }
    for (Done& done : held) done(absl::CancelledError("the session ended"));
  }
  size_t Waiting(SessionId session) override { return 2; }
  std::vector<SessionId> ended() {
    MutexLock lock(mutex_);
    return ended_;
  }
  void Register(const std::string& name, std::shared_ptr<const CompiledProgram> program) {
    MutexLock lock(mutex_);
    programs_[name] = std::move(program);
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const CompiledProgram>> programs_ GUARDED_BY(mutex_);
  std::vector<SessionId> ended_ GUARDED_BY(mutex_);
  std::vector<Done> held_ GUARDED_BY(mutex_);
};

// A host buffer that is there in full.
class FullBuffer : public HostBuffer {
 public:
  explicit FullBuffer(std::vector<std::string> chunks, absl::Status end = absl::OkStatus())
      : chunks_(std::move(chunks)), end_(std::move(end)) {}
  void Consume(absl::AnyInvocable<void(Chunk)> on_chunk, Callback<absl::Status> on_end) override {
    for (const std::string& chunk : chunks_) on_chunk(std::make_shared<const std::string>(chunk));
    on_end(end_);
  }
  int64_t size() const override { return -1; }

 private:
  const std::vector<std::string> chunks_;
  const absl::Status end_;
};

inline std::vector<DeviceId> Devices(std::vector<uint64_t> ids) {
  std::vector<DeviceId> devices;
  for (uint64_t id : ids) devices.push_back(DeviceId{id});
  return devices;
}

// f32[dims] cut along dimension 0 over `ids`, or replicated on them.
inline ArraySpec TiledSpec(std::vector<int64_t> dims, std::vector<uint64_t> ids) {
  ArraySpec spec;
  spec.shape = Shape{DType::kF32, std::move(dims)};
  spec.sharding.devices = Devices(ids);
  if (ids.size() == 1) {
    spec.sharding.kind = Sharding::Kind::kSingleDevice;
    return spec;
  }
  spec.sharding.kind = Sharding::Kind::kTiled;
  spec.sharding.tile_dims.assign(spec.shape.dims.size(), 1);
  spec.sharding.tile_dims[0] = static_cast<int64_t>(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) spec.sharding.tile_devices.push_back(static_cast<int64_t>(i));
  return spec;
}
inline ArraySpec ReplicatedSpec(std::vector<int64_t> dims, std::vector<uint64_t> ids) {
  ArraySpec spec;
  spec.shape = Shape{DType::kF32, std::move(dims)};
  spec.sharding.kind = Sharding::Kind::kReplicated;
  spec.sharding.devices = Devices(std::move(ids));
  return spec;
}

// `parameters` parameters and `results` results, all f32[dims] cut along dimension 0 over `partitions` ranks.
inline std::shared_ptr<CompiledProgram> TestProgram(const std::string& name, int partitions, int parameters,
                                                    int results, std::vector<int32_t> donatable = {},
                                                    std::vector<int64_t> dims = {8}) {
  auto program = std::make_shared<CompiledProgram>();
  program->id = ProgramId{"hash of " + name};
  program->executable = name;
  program->info.name = name;
  program->info.fingerprint = "print of " + name;
  program->info.num_partitions = partitions;
  program->info.donatable_parameters = std::move(donatable);
  ProgramValue value;
  value.shape = value.shard_shape = Shape{DType::kF32, dims};
  value.shard_shape.dims[0] /= partitions;
  value.layout = Layout::Default(static_cast<int>(dims.size()));
  value.memory_kind = "device";
  if (partitions > 1) {
    xla::OpSharding sharding;
    sharding.set_type(xla::OpSharding::OTHER);
    sharding.add_tile_assignment_dimensions(partitions);
    for (size_t d = 1; d < dims.size(); ++d) sharding.add_tile_assignment_dimensions(1);
    for (int i = 0; i < partitions; ++i) sharding.add_tile_assignment_devices(i);
    value.op_sharding = sharding.SerializeAsString();
  }
  program->info.parameters.assign(parameters, value);
  program->info.results.assign(results, value);
  return program;
}

inline std::string OptionsFor(const std::vector<uint64_t>& devices) {
  xla::CompileOptionsProto options;
  auto* build = options.mutable_executable_build_options();
  build->set_num_replicas(1);
  build->set_num_partitions(static_cast<int64_t>(devices.size()));
  build->set_use_spmd_partitioning(devices.size() > 1);
  auto* assignment = build->mutable_device_assignment();
  assignment->set_replica_count(1);
  assignment->set_computation_count(static_cast<int32_t>(devices.size()));
  for (uint64_t id : devices) {
    assignment->add_computation_devices()->add_replica_device_ids(static_cast<int64_t>(id));
  }
  return options.SerializeAsString();
}

}  // namespace switchtower
