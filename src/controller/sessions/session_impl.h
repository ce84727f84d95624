// One client's session: the requests of controller/api, given to the handlers in controller/graph.
//
// Place:    controller/sessions; made by ControllerImpl.
// Threads:  as controller/api's Session says; compile callbacks come on the compiler's threads.
// Lifetime: Close ends everything at the workers; on_close then tells the controller, once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/compile_service.h"
#include "controller/api/session.h"
#include "controller/graph/session_context.h"
#include "controller/sessions/program_inbox.h"

namespace switchtower {

class SessionImpl : public Session {
 public:
  struct Options {
    SessionDescription description;
    DeviceTable devices;
    DeviceType device_type;  // what programs are compiled for
    std::shared_ptr<HomePort> home;
    CompileService* compiler = nullptr;  // outlives the session
    std::string peer;
    SessionStanding standing;
    std::function<void(SessionId)> on_close;
  };
  explicit SessionImpl(Options options);
  ~SessionImpl() override;

  const SessionDescription& description() const override { return description_; }
  uint64_t NewHandle() override { return context_.NewHandle(); }
  void ServeCalls(std::shared_ptr<ClientCallServer> server) override;
  std::function<void(Callback<std::vector<DeviceMemory>>)> MemorySource() override;

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

  size_t under_way() const override { return context_.flow->under_way(); }
  void WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) override;
  void Close(absl::Status reason) override;

 private:
  std::vector<std::pair<DeviceId, Place>> PlacedDevices() const;
  // Takes in what the compiler has finished.
  void TakePrograms();

  const SessionDescription description_;
  const DeviceType device_type_;
  CompileService& compiler_;
  const std::function<void(SessionId)> on_close_;
  const std::shared_ptr<ProgramInbox> inbox_ = std::make_shared<ProgramInbox>();
  // Shared with compile callbacks, which draw handles.
  const std::shared_ptr<SessionContext> owned_context_;
  SessionContext& context_;
  std::shared_ptr<ClientCallServer> calls_;
  bool closed_ = false;
};

}  // namespace switchtower
