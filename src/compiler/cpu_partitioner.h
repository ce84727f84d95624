// ProgramPartitioner over XLA's CPU plug-in.
//
// The plug-in's compile of N partitions on N virtual devices is stopped by a transform after the scheduler,
// which keeps the module: code generation, nearly all of the cost, isn't paid. The lowered module then goes
// through code generation alone, as a portable program of one partition. A program of one partition needs one
// pass: the transform replaces the module and the compile goes on.
//
// Place:    compiler; one in each compiler process.
// Threads:  any. What the transform does is chosen by a thread_local, since it is called for every compile.
// Lifetime: throw-away clients are kept by device count, the least recently used is dropped first: a client
//           has a thread for each device.
// Errors:   see ProgramPartitioner.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "compiler/program_partitioner.h"
#include "pjrt/client.h"
#include "pjrt/plugin.h"

namespace switchtower {

class CpuPartitioner : public ProgramPartitioner {
 public:
  // Registers the transform; one object a process.
  static absl::StatusOr<std::unique_ptr<CpuPartitioner>> Create(pjrt::Plugin& plugin);

  absl::StatusOr<pjrt::LoadedExecutable> Compile(std::string_view module, const ClientOptions& options,
                                                 Lower lower) override;

 private:
  explicit CpuPartitioner(pjrt::Plugin& plugin) : plugin_(plugin) {}

  absl::StatusOr<std::shared_ptr<pjrt::Client>> ClientOf(int32_t devices);
  absl::StatusOr<pjrt::LoadedExecutable> CompileOnePartition(std::string_view module, const ClientOptions& options,
                                                             Lower lower);
  absl::StatusOr<pjrt::LoadedExecutable> CompilePartitions(std::string_view module, const ClientOptions& options,
                                                           Lower lower);

  pjrt::Plugin& plugin_;
  Mutex mutex_;
  // Most recently used first.
  std::list<std::pair<int32_t, std::shared_ptr<pjrt::Client>>> clients_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
