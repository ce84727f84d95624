#include "controller/sessions/session_impl.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "controller/graph/copy_requests.h"
#include "controller/graph/launch_requests.h"
#include "controller/graph/put_requests.h"
#include "controller/graph/value_requests.h"

namespace switchtower {

SessionImpl::SessionImpl(Options options)
    : description_(std::move(options.description)),
      device_type_(std::move(options.device_type)),
      compiler_(*options.compiler),
      on_close_(std::move(options.on_close)),
      owned_context_(
          std::make_shared<SessionContext>(description_.id, std::move(options.devices), std::move(options.home))),
      context_(*owned_context_) {
  context_.home->AddSession(context_.id, std::move(options.peer), options.standing, PlacedDevices(), context_.flow);
}

SessionImpl::~SessionImpl() { Close(absl::CancelledError("the session ended")); }

void SessionImpl::Close(absl::Status reason) {
  if (closed_) return;
  closed_ = true;
  LogInfo("session {:016x} ends: {}; it had {} arrays, {} programs", context_.id.value,
          reason.ok() ? "closed by the client" : std::string(reason.message()), context_.arrays.size(),
          context_.programs.size());
  if (reason.ok()) reason = absl::CancelledError("the session ended");
  context_.arrays.Clear();
  context_.programs.Clear();
  compiler_.EndSession(context_.id);
  context_.home->EndSession(context_.id, std::move(reason));
  if (on_close_) on_close_(context_.id);
}

void SessionImpl::ServeCalls(std::shared_ptr<ClientCallServer> server) {
  calls_ = server;
  context_.home->ServeCalls(context_.id, std::move(server));
}

std::vector<std::pair<DeviceId, Place>> SessionImpl::PlacedDevices() const {
  std::vector<std::pair<DeviceId, Place>> devices;
  for (const VirtualDevice& device : context_.devices.devices()) {
    if (absl::StatusOr<Place> place = context_.devices.Find(device.id); place.ok()) {
      devices.emplace_back(device.id, *place);
    }
  }
  return devices;
}

std::function<void(Callback<std::vector<DeviceMemory>>)> SessionImpl::MemorySource() {
  return [home = context_.home, devices = PlacedDevices()](Callback<std::vector<DeviceMemory>> done) {
    home->ReadMemory(devices, std::move(done));
  };
}

absl::Status SessionImpl::MakeArray(ArrayId result, const ArraySpec& spec, std::vector<HostShard> shards,
                                    uint64_t user_context) {
  return MakeArrayFromHost(context_, result, spec, std::move(shards), user_context);
}

void SessionImpl::MakeErrorArray(ArrayId result, const ArraySpec& spec, absl::Status error) {
  CHECK(!error.ok());
  absl::StatusOr<ArrayInfoPtr> info = context_.devices.Describe(spec);
  context_.arrays.BindError(result, info.ok() ? *std::move(info) : nullptr, std::move(error)).IgnoreError();
}

void SessionImpl::BindError(ArrayId result, absl::Status error) {
  CHECK(!error.ok());
  context_.arrays.BindError(result, nullptr, std::move(error)).IgnoreError();
}

absl::Status SessionImpl::Assemble(ArrayId result, const ArraySpec& spec, absl::Span<const ArrayId> parts,
                                   CopySemantics semantics, uint64_t user_context) {
  return AssembleArray(context_, result, spec, parts, semantics, user_context);
}

absl::Status SessionImpl::Disassemble(ArrayId array, absl::Span<const ArrayId> results, CopySemantics semantics,
                                      uint64_t user_context) {
  return DisassembleArray(context_, array, results, semantics, user_context);
}

absl::Status SessionImpl::FullyReplicatedShard(ArrayId array, ArrayId result, CopySemantics semantics,
                                               uint64_t user_context) {
  return FirstShard(context_, array, result, semantics, user_context);
}

absl::Status SessionImpl::Copy(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                               absl::Span<const DeviceId> devices, const std::optional<std::string>& memory_kind,
                               CopySemantics semantics, uint64_t user_context) {
  return CopyArrays(context_, arrays, results, devices, memory_kind, semantics, user_context);
}

absl::Status SessionImpl::Remap(absl::Span<const ArrayId> arrays, absl::Span<const ArraySpec> inputs,
                                absl::Span<const ArrayId> results, absl::Span<const ArraySpec> outputs,
                                absl::Span<const ShardMapping> mappings, CopySemantics semantics,
                                uint64_t user_context) {
  return RemapArrays(context_, arrays, inputs, results, outputs, mappings, semantics, user_context);
}

absl::Status SessionImpl::Reshard(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                                  absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) {
  return ReshardArrays(context_, arrays, results, outputs, semantics, user_context);
}

absl::Status SessionImpl::Bitcast(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                                  absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) {
  return BitcastArrays(context_, arrays, results, outputs, semantics, user_context);
}

void SessionImpl::WhenReady(absl::Span<const ArrayId> arrays, Callback<absl::Status> done) {
  WhenArraysReady(context_, arrays, std::move(done));
}

void SessionImpl::Read(ArrayId array, std::optional<std::vector<int64_t>> byte_strides,
                       Callback<absl::StatusOr<std::vector<HostBuffer::Chunk>>> done) {
  ReadArray(context_, array, std::move(byte_strides), std::move(done));
}

absl::StatusOr<ArraySpec> SessionImpl::Spec(ArrayId array) {
  ASSIGN_OR_RETURN(LogicalArray * live, context_.arrays.Live(array));
  return live->info->spec;
}

absl::StatusOr<bool> SessionImpl::IsDeleted(ArrayId array) { return IsArrayDeleted(context_, array); }

absl::Status SessionImpl::Delete(absl::Span<const ArrayId> arrays) {
  return DeleteArrayBuffers(context_, arrays, /*forget=*/false);
}

absl::Status SessionImpl::Destruct(absl::Span<const ArrayId> arrays) {
  return DeleteArrayBuffers(context_, arrays, /*forget=*/true);
}

absl::StatusOr<Layout> SessionImpl::DefaultLayout(const Shape& shape, DeviceId device, const std::string& memory_kind) {
  RETURN_IF_ERROR(ValidateShape(shape));
  RETURN_IF_ERROR(context_.devices.Find(device).status());
  RETURN_IF_ERROR(context_.devices.CheckMemoryKind(memory_kind));
  return Layout::Default(shape.rank());
}

void SessionImpl::Compile(std::string module, std::string options, uint64_t user_context,
                          Callback<absl::StatusOr<CompileReply>> done) {
  absl::StatusOr<std::vector<DeviceId>> devices = AssignedDevices(options, context_.devices.devices().size());
  if (!devices.ok()) {
    done(devices.status());
    return;
  }
  const uint64_t number = context_.flow->CompileBegan(module.size());
  compiler_.Compile(CompileRequest{std::move(module), std::move(options), device_type_, context_.id},
                    [inbox = inbox_, context = owned_context_, devices = *std::move(devices), user_context, number,
                     done = std::move(done)](absl::StatusOr<std::shared_ptr<const CompiledProgram>> program) mutable {
                      context->flow->CompileEnded(number);
                      if (program.ok() && (*program)->info.num_partitions != static_cast<int32_t>(devices.size())) {
                        program = absl::InvalidArgumentError(
                            fmt::format("{} has {} partitions, but {} devices were assigned to it",
                                        (*program)->info.name, (*program)->info.num_partitions, devices.size()));
                      }
                      if (!program.ok()) {
                        done(program.status());
                        return;
                      }
                      CompileReply reply;
                      reply.executable = context->NewHandle();
                      reply.name = (*program)->info.name;
                      reply.fingerprint = (*program)->info.fingerprint;
                      reply.devices = devices;
                      inbox->Put({reply.executable, *std::move(program), std::move(devices), user_context});
                      done(std::move(reply));
                    });
}

void SessionImpl::TakePrograms() {
  for (ProgramInbox::Item& item : inbox_->Take()) {
    absl::StatusOr<PlacedProgramPtr> placed =
        PlaceProgram(std::move(item.program), std::move(item.devices), device_type_, context_.devices, calls_.get());
    if (!placed.ok()) {  // a device named twice: the handle stays unknown
      LogWarn("session {:016x}: a program can't be placed: {}", context_.id.value,
              std::string(placed.status().message()));
      continue;
    }
    context_.programs.Add(item.handle, *placed);
    context_.Submit(RetainOp{*std::move(placed)}, context_.now(), item.user_context);
  }
}

absl::StatusOr<std::shared_ptr<const CompiledProgram>> SessionImpl::Program(uint64_t executable) {
  TakePrograms();
  ASSIGN_OR_RETURN(ExecutableTable::Entry * entry, context_.programs.Find(executable));
  return entry->placed().program;
}

absl::StatusOr<std::vector<DeviceId>> SessionImpl::ProgramDevices(uint64_t executable) {
  TakePrograms();
  ASSIGN_OR_RETURN(ExecutableTable::Entry * entry, context_.programs.Find(executable));
  return entry->placed().device_ids;
}

absl::StatusOr<ExecuteReply> SessionImpl::Execute(const ExecuteRequest& request, Callback<absl::Status> on_status) {
  TakePrograms();
  return ExecuteProgram(context_, request, std::move(on_status));
}

absl::Status SessionImpl::DestructExecutable(uint64_t executable) {
  TakePrograms();
  ASSIGN_OR_RETURN(ExecutableTable::Entry * entry, context_.programs.Find(executable));
  context_.Submit(ReleaseOp{entry->placed_ptr()}, context_.now(), 0);
  return context_.programs.Erase(executable);
}

void SessionImpl::WhenBelow(size_t bound, absl::AnyInvocable<void()> resume) {
  context_.flow->WhenBelow(bound, std::move(resume));
}

}  // namespace switchtower
