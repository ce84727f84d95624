#include "worker/agent/worker_core.h"

#include <atomic>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "base/heap.h"
#include "base/log.h"

namespace switchtower {
namespace {

// The answer to one AwaitReady: the first error in the order of its entries, once all have one or a value.
class ReadinessWait {
 public:
  ReadinessWait(RequestId request, size_t entries, std::shared_ptr<ControllerPort> port)
      : request_(request), port_(std::move(port)), statuses_(entries), missing_(entries + 1) {}

  void Arrive(size_t entry, absl::Status status) {
    statuses_[entry] = std::move(status);
    Release();
  }
  void Release() {
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    for (const absl::Status& status : statuses_) {
      if (!status.ok()) return port_->Send(Ready{request_, status});
    }
    port_->Send(Ready{request_, absl::OkStatus()});
  }

 private:
  const RequestId request_;
  const std::shared_ptr<ControllerPort> port_;
  std::vector<absl::Status> statuses_;  // each written by one arrival
  std::atomic<size_t> missing_;
};

auto AsTuple(const WorkerStats& s) {
  return std::tie(s.launches, s.collectives, s.bytes_in_memory, s.bytes_shared_memory, s.bytes_tcp, s.bytes_put,
                  s.bytes_read, s.buffer_bytes, s.buffers, s.busy_ns);
}

}  // namespace

Worker::Core::Core(Parts parts, std::shared_ptr<IntakeQueue> intake, std::shared_ptr<WorkQueue> io,
                   std::shared_ptr<WorkQueue> resume, WorkQueue& loaders)
    : parts_(parts),
      intake_(intake),
      resume_(std::move(resume)),
      loaders_(loaders),
      host_calls_(
          [this, intake](WorkerEvent event) {
            intake->Post([this, event = std::move(event)]() mutable { Emit(std::move(event)); });
          },
          resume_),
      programs_(*parts.engine, loaders),
      launches_(
          {parts.self, parts.engine, parts.collectives, &store_, &programs_, intake, &host_calls_, parts.cancel_grace},
          [this](WorkerEvent event) { Emit(std::move(event)); }),
      puts_(parts.self, *parts.engine, store_, io, traffic_),
      reader_(*parts.engine, io, traffic_),
      transfers_({parts.self, parts.engine, &store_, parts.router, intake, io},
                 [this](WorkerEvent event) { Emit(std::move(event)); }) {}

void Worker::Core::Attach(std::shared_ptr<ControllerPort> port) {
  if (closed_) return port->Close(absl::UnavailableError("the worker stops"));
  if (port_ != nullptr) {
    port_->Close(absl::AbortedError("another controller took this worker over"));
    Reset(absl::CancelledError("another controller took the worker over"));
  }
  port_ = std::move(port);
  const uint64_t attachment = ++attachment_;
  published_ = WorkerStats{};
  port_->Start({[this, intake = intake_, attachment](WorkerCommand command) {
                  intake->RunOrPost([this, attachment, command = std::move(command)]() mutable {
                    Take(attachment, std::move(command));
                  });
                },
                [this, intake = intake_, attachment](absl::Status why) {
                  intake->Post([this, attachment, why = std::move(why)] { Detach(attachment, why); });
                }});
}

void Worker::Core::Detach(uint64_t attachment, const absl::Status& why) {
  if (attachment != attachment_ || port_ == nullptr) return;
  LogInfo("controller gone, its sessions end: {}", why.ToString());
  port_ = nullptr;
  Reset(absl::CancelledError("the controller's connection to the worker ended"));
}

void Worker::Core::Close(const absl::Status& why) {
  if (port_ != nullptr) port_->Close(why);
  port_ = nullptr;
  closed_ = true;
  Reset(absl::CancelledError("the worker stops"));
}

void Worker::Core::Reset(const absl::Status& cause) {
  // First those who might wait for what the others fail.
  launches_.Reset(cause);
  transfers_.Reset(cause);
  puts_.Reset(cause);
  store_.Clear();
  programs_.Clear();
}

void Worker::Core::Take(uint64_t attachment, WorkerCommand command) {
  if (attachment != attachment_ || port_ == nullptr) return;
  std::visit([this](auto&& alternative) { Do(std::move(alternative)); }, std::move(command));
}

void Worker::Core::Emit(WorkerEvent event) {
  if (port_ != nullptr) port_->Send(std::move(event));
}

void Worker::Core::Do(SetPeers command) {
  PeerTable table;
  for (WorkerEndpoint& peer : command.peers) {
    if (peer.worker == parts_.self) continue;
    transfers_.ForgetLost(peer.worker);
    if (parts_.collectives != nullptr) parts_.collectives->ForgetLost(peer.worker);
    table[peer.worker] = PeerEndpoint{std::move(peer.addresses), std::move(peer.host_id), std::move(peer.secret)};
  }
  Fabric& fabric = parts_.router->fabric();
  for (WorkerId peer : peers_) {
    if (table.contains(peer)) continue;
    fabric.RemovePeer(peer);
    transfers_.MarkLost(peer, absl::CancelledError("it no longer belongs to the lease"));
  }
  peers_.clear();
  for (const auto& [peer, endpoint] : table) peers_.insert(peer);
  fabric.SetPeers(table);
}

void Worker::Core::Do(LoadProgram command) {
  programs_.Load(std::move(command), [port = port_](ProgramId program, absl::Status cause) {
    LogWarn("program {} not loaded: {}", program.hash, cause.ToString());
    port->Send(ProgramLoadFailed{std::move(program), std::move(cause)});
  });
}

void Worker::Core::Do(CancelLaunch command) {
  launches_.Cancel(command.launch, command.cause);
  transfers_.Cancel(command.launch, command.cause);
}

void Worker::Core::Do(BindArrays command) {
  for (const BindArrays::Binding& binding : command.bindings) {
    if (binding.device.worker != parts_.self) continue;
    store_.Bind({command.session, binding.from}, {command.session, binding.to}, binding.device.ordinal);
  }
}

void Worker::Core::Do(PutError command) {
  for (const PhysicalDevice& device : command.devices) {
    if (device.worker == parts_.self) store_.Promise(command.array, device.ordinal)->Fail(command.error);
  }
}

void Worker::Core::Do(ReadShard command) {
  BufferEntryPtr entry = store_.Find(command.array, command.device.ordinal);
  reader_.Read(entry, std::move(command), port_);
}

void Worker::Core::Do(AwaitReady command) {
  std::vector<BufferEntryPtr> entries;
  for (ArrayId array : command.arrays) {
    for (BufferEntryPtr& entry : store_.Entries({command.session, array})) entries.push_back(std::move(entry));
  }
  auto wait = std::make_shared<ReadinessWait>(command.request, entries.size(), port_);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i]->OnReady([wait, i](absl::Status status) { wait->Arrive(i, std::move(status)); });
  }
  wait->Release();
}

void Worker::Core::Do(DeleteArrays command) {
  for (ArrayId array : command.arrays) store_.Erase({command.session, array});
}

void Worker::Core::Do(EndSession command) {
  const absl::Status cause = absl::CancelledError("the session ended");
  launches_.CancelSession(command.session, cause);
  transfers_.CancelSession(command.session, cause);
  puts_.EndSession(command.session, cause);
  store_.EraseSession(command.session);
  session_ended_ = true;
}

void Worker::Core::Do(AskMemory command) {
  MemoryInUse answer{command.request, {}};
  for (int32_t ordinal = 0; ordinal < parts_.engine->device_count(); ++ordinal) {
    const StoreUsage& usage = store_.usage_of(ordinal);
    answer.devices.push_back({static_cast<uint64_t>(usage.bytes.load(std::memory_order_relaxed)),
                              static_cast<uint64_t>(usage.peak_bytes.load(std::memory_order_relaxed))});
  }
  Emit(std::move(answer));
}

void Worker::Core::Do(ReportTimes command) {
  launches_.ReportTimes(command.on);
  transfers_.ReportTimes(command.on);
}

void Worker::Core::Do(AskActivity command) {
  WorkerActivity answer;
  answer.request = command.request;
  launches_.Describe(&answer);
  for (size_t ordinal = 0; ordinal < answer.devices.size(); ++ordinal) {
    const StoreUsage& usage = store_.usage_of(static_cast<int32_t>(ordinal));
    answer.devices[ordinal].bytes = static_cast<uint64_t>(usage.bytes.load(std::memory_order_relaxed));
    answer.devices[ordinal].peak_bytes = static_cast<uint64_t>(usage.peak_bytes.load(std::memory_order_relaxed));
  }
  transfers_.Describe(&answer);
  puts_.Describe(&answer);
  host_calls_.Describe(&answer);
  answer.fault_points = FaultPoint::Armed();
  Emit(std::move(answer));
}

WorkerStats Worker::Core::Stats() const {
  const FabricStats fabric = parts_.router->fabric().stats();
  WorkerStats stats;
  stats.launches = launches_.executions();
  stats.bytes_in_memory = fabric.memory.bytes_sent;
  if (parts_.collectives != nullptr) {
    const CollectiveStats collectives = parts_.collectives->stats();
    stats.collectives = collectives.operations;
    stats.bytes_in_memory += collectives.bytes_in_memory;
  }
  stats.bytes_shared_memory = fabric.shm.bytes_sent + fabric.fast.bytes_sent + fabric.unix_socket.bytes_sent;
  stats.bytes_tcp = fabric.tcp.bytes_sent;
  stats.bytes_put = traffic_->bytes_put.load(std::memory_order_relaxed);
  stats.bytes_read = traffic_->bytes_read.load(std::memory_order_relaxed);
  stats.buffer_bytes = static_cast<uint64_t>(store_.usage().bytes.load(std::memory_order_relaxed));
  stats.buffers = static_cast<uint64_t>(store_.usage().entries.load(std::memory_order_relaxed));
  stats.busy_ns = launches_.busy_ns();
  return stats;
}

void Worker::Core::CheckLeftovers() {
  // By now its buffers are gone, too. Aside: nobody's commands wait for it.
  if (std::exchange(session_ended_, false)) loaders_.Post(&TrimHeap);
  if (parts_.on_stuck == nullptr) return;
  if (const absl::Status status = launches_.CheckLeftovers(); !status.ok()) parts_.on_stuck(status);
}

void Worker::Core::PublishStats() {
  if (port_ == nullptr) return;
  const WorkerStats stats = Stats();
  if (AsTuple(stats) == AsTuple(published_)) return;
  published_ = stats;
  Emit(stats);
}

}  // namespace switchtower
