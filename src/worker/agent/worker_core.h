// The state of a Worker, all of it on the intake.
#pragma once

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "worker/agent/worker.h"
#include "worker/exec/host_call_table.h"
#include "worker/exec/host_puts.h"
#include "worker/exec/launch_table.h"
#include "worker/exec/program_table.h"
#include "worker/exec/shard_reader.h"
#include "worker/exec/transfer_table.h"
#include "worker/store/buffer_store.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

class Worker::Core {
 public:
  Core(Parts parts, std::shared_ptr<IntakeQueue> intake, std::shared_ptr<WorkQueue> io,
       std::shared_ptr<WorkQueue> resume, WorkQueue& loaders);

  void Attach(std::shared_ptr<ControllerPort> port);
  // A controller's end, unless another one has taken over.
  void Detach(uint64_t attachment, const absl::Status& why);
  void Take(uint64_t attachment, WorkerCommand command);
  void PublishStats();
  void CheckLeftovers();
  // Ends the controller's connection and all that it had here.
  void Close(const absl::Status& why);
  // Not on the intake, after Close.
  void StopDevices() { launches_.StopDevices(); }

 private:
  void Do(SetPeers command);
  void Do(DefineGang command) { launches_.DefineGang(std::move(command)); }
  void Do(DropGang command) { launches_.DropGang(command.gang); }
  void Do(LoadProgram command);
  void Do(UnloadProgram command) { programs_.Unload(command.program); }
  void Do(Launch command) { launches_.Launch(std::move(command)); }
  void Do(CancelLaunch command);
  void Do(PutArray command) { puts_.Put(std::move(command)); }
  void Do(StreamChunk command) { puts_.Chunk(std::move(command)); }
  void Do(BindArrays command);
  void Do(PutError command);
  void Do(TransferArray command) { transfers_.Transfer(std::move(command)); }
  void Do(ReadShard command);
  void Do(AwaitReady command);
  void Do(DeleteArrays command);
  void Do(EndSession command);
  void Do(AskMemory command);
  void Do(ReportTimes command);
  void Do(AskActivity command);
  void Do(ReturnHostCall command) { host_calls_.Return(std::move(command)); }

  void Emit(WorkerEvent event);
  void Reset(const absl::Status& cause);
  WorkerStats Stats() const;

  const Parts parts_;
  const std::shared_ptr<IntakeQueue> intake_;
  const std::shared_ptr<HostTraffic> traffic_ = std::make_shared<HostTraffic>();
  const std::shared_ptr<WorkQueue> resume_;
  WorkQueue& loaders_;
  HostCallTable host_calls_;
  BufferStore store_;
  ProgramTable programs_;
  LaunchTable launches_;
  HostPuts puts_;
  ShardReader reader_;
  TransferTable transfers_;

  std::shared_ptr<ControllerPort> port_;  // null: no controller
  uint64_t attachment_ = 0;
  bool closed_ = false;
  bool session_ended_ = false;  // since the last CheckLeftovers
  absl::flat_hash_set<WorkerId> peers_;
  WorkerStats published_;
};

}  // namespace switchtower
