// A small real Session in memory, for tests of what stands on top of one: arrays hold their bytes, programs
// are known by name and hand their arguments on as results.
//
// Threads: as Session; the members for tests from any thread.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "controller/api/fake_arrays.h"
#include "controller/api/session.h"

namespace switchtower {

class FakeSession final : public Session {
 public:
  // `slices` times `devices_per_slice` devices, ids from 0, with three memory kinds each.
  FakeSession(SessionId id, int slices, int devices_per_slice);

  // ---- for tests
  // Compile(module) with these bytes gives this program; that of "" is for all others.
  void AddProgram(const std::string& module, CompiledProgram program);
  // Launches stay in flight until released.
  void HoldLaunches() EXCLUDES(mutex_);
  void ReleaseLaunches() EXCLUDES(mutex_);
  size_t arrays() const { return arrays_.size(); }
  // Calls of MakeArray and Destruct so far.
  size_t array_calls() const { return array_calls_; }
  bool closed() const { return closed_; }
  ClientCallServer* calls() const { return calls_.get(); }

  // ---- Session
  const SessionDescription& description() const override { return description_; }
  uint64_t NewHandle() override { return next_handle_++; }
  void ServeCalls(std::shared_ptr<ClientCallServer> server) override { calls_ = std::move(server); }
  std::function<void(Callback<std::vector<DeviceMemory>>)> MemorySource() override {
    return [](Callback<std::vector<DeviceMemory>> done) { done({{DeviceId{0}, 4096, 8192, 1 << 20}}); };
  }
  absl::Status MakeArray(ArrayId result, const ArraySpec& spec, std::vector<HostShard> shards,
                         uint64_t user_context) override;
  void MakeErrorArray(ArrayId result, const ArraySpec& spec, absl::Status error) override;
  void BindError(ArrayId result, absl::Status error) override;
  absl::Status Assemble(ArrayId result, const ArraySpec& spec, absl::Span<const ArrayId> parts, CopySemantics semantics,
                        uint64_t user_context) override;
  absl::Status Disassemble(ArrayId array, absl::Span<const ArrayId> results, CopySemantics semantics,
                           uint64_t user_context) override;
  absl::Status FullyReplicatedShard(ArrayId array, ArrayId result, CopySemantics semantics,
                                    uint64_t user_context) override;
  absl::Status Copy(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                    absl::Span<const DeviceId> devices, const std::optional<std::string>& memory_kind,
                    CopySemantics semantics, uint64_t user_context) override;
  absl::Status Remap(absl::Span<const ArrayId> arrays, absl::Span<const ArraySpec> inputs,
                     absl::Span<const ArrayId> results, absl::Span<const ArraySpec> outputs,
                     absl::Span<const ShardMapping> mappings, CopySemantics semantics, uint64_t user_context) override;
  absl::Status Reshard(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                       absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) override;
  absl::Status Bitcast(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                       absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) override;
  void WhenReady(absl::Span<const ArrayId> arrays, Callback<absl::Status> done) override;
  void Read(ArrayId array, std::optional<std::vector<int64_t>> byte_strides,
            Callback<absl::StatusOr<std::vector<HostBuffer::Chunk>>> done) override;
  absl::StatusOr<ArraySpec> Spec(ArrayId array) override;
  absl::StatusOr<bool> IsDeleted(ArrayId array) override;
  absl::Status Delete(absl::Span<const ArrayId> arrays) override;
  absl::Status Destruct(absl::Span<const ArrayId> arrays) override;
  absl::StatusOr<Layout> DefaultLayout(const Shape& shape, DeviceId device, const std::string& memory_kind) override;
  void Compile(std::string module, std::string options, uint64_t user_context,
               Callback<absl::StatusOr<CompileReply>> done) override;
  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Program(uint64_t executable) override;
  absl::StatusOr<std::vector<DeviceId>> ProgramDevices(uint64_t executable) override;
  absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request, Callback<absl::Status> on_status) override;
  absl::Status DestructExecutable(uint64_t executable) override;
  size_t under_way() const override EXCLUDES(mutex_);
  void WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) override EXCLUDES(mutex_);
  void Close(absl::Status reason) override;

 private:
  // The array, if it is known, not deleted and not an error.
  absl::StatusOr<FakeArray*> Find(ArrayId id);
  absl::StatusOr<std::vector<FakeArray*>> FindAll(absl::Span<const ArrayId> ids);
  // Fails, and binds nothing, if an id is taken.
  absl::Status CheckFree(absl::Span<const ArrayId> results) const;
  absl::Status BindAll(absl::Span<const ArrayId> results, absl::Status error);
  absl::Status Insert(ArrayId result, FakeArray array);

  SessionDescription description_;
  uint64_t next_handle_ = uint64_t{1} << 48;
  absl::flat_hash_map<ArrayId, FakeArray> arrays_;
  std::map<std::string, std::shared_ptr<const CompiledProgram>> programs_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const CompiledProgram>> executables_;
  std::shared_ptr<ClientCallServer> calls_;
  bool closed_ = false;
  std::atomic<size_t> array_calls_ = 0;

  mutable Mutex mutex_;
  bool hold_ GUARDED_BY(mutex_) = false;
  size_t in_flight_ GUARDED_BY(mutex_) = 0;
  std::vector<absl::AnyInvocable<void()>> held_ GUARDED_BY(mutex_);
};

class FakeController final : public Controller {
 public:
  FakeController(int slices, int devices_per_slice, uint64_t first_session = 81)
      : slices_(slices), devices_(devices_per_slice), next_session_(first_session) {}
  // Called with each new session, before the client can use it.
  std::function<void(FakeSession&)> on_open;
  // Not OK: sessions aren't opened.
  absl::Status open_error;
  // The next session isn't opened; may be called several times.
  void RefuseNext(absl::Status why) EXCLUDES(mutex_);

  void OpenSession(const SessionRequest& request, Callback<absl::StatusOr<std::unique_ptr<Session>>> done) override;

 private:
  const int slices_;
  const int devices_;
  Mutex mutex_;
  uint64_t next_session_ GUARDED_BY(mutex_);
  std::deque<absl::Status> refusals_ GUARDED_BY(mutex_);
};

}  // namespace switchtower
