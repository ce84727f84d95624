// A whole session at the proxy, from the client's bytes to the commands that workers get: the request handlers and the
// host buffers of the door, over the real controller. The workers are played: they check what they are sent, and say
// what the input tells them to. So are the compiler's processes.
//
// Beside "no crash": each request is answered exactly once, with an error or with a response, which the client can
// parse; no command is one that a worker's decoder refuses (it would give up its connection, and with it everybody's
// arrays).
#include <array>
#include <future>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/strand.h"
#include "compiler/program_proto.h"
#include "controller/sessions/testing_controller.h"
#include "frontdoor/client_session.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"
#include "wire/worker/frame_body.h"
#include "wire/worker/worker_codec.h"

namespace switchtower::fuzz {
namespace {

// More would be waiting for the workers only.
constexpr int kStepsMax = 64;

class PlayedWorker {
 public:
  explicit PlayedWorker(bool silent) : silent_(silent) {}

  void Start(WorkerChannel::Handlers handlers) {
    MutexLock lock(mutex_);
    handlers_ = std::move(handlers);
  }

  void Take(const SharedCommand& command) {
    std::string body = command.encoded(EncodeCommandHead) == nullptr ? "" : *command.encoded(EncodeCommandHead);
    if (auto payload = CommandPayload(command.command())) body += *payload;
    const absl::StatusOr<WorkerCommand> decoded = DecodeCommand(body);
    CHECK(decoded.ok());
    if (silent_) return;
    if (const auto* launch = std::get_if<Launch>(&*decoded)) Emit(Watermark{launch->id});
    if (const auto* await = std::get_if<AwaitReady>(&*decoded)) Emit(Ready{await->request, absl::OkStatus()});
    if (const auto* read = std::get_if<ReadShard>(&*decoded)) {
      Emit(ReadData{read->request, std::make_shared<const std::string>("abcd"), true, absl::OkStatus()});
    }
    if (const auto* ask = std::get_if<AskMemory>(&*decoded)) Emit(MemoryInUse{ask->request, {{1, 2}, {3, 4}}});
  }

  void Emit(WorkerEvent event) {
    MutexLock lock(mutex_);
    if (handlers_.on_event) handlers_.on_event(std::move(event));
  }
  void Break() {
    MutexLock lock(mutex_);
    handlers_.on_event = nullptr;
    if (handlers_.on_closed) std::exchange(handlers_.on_closed, nullptr)(absl::UnavailableError("the worker died"));
  }

 private:
  const bool silent_;
  Mutex mutex_;
  WorkerChannel::Handlers handlers_ GUARDED_BY(mutex_);
};

class PlayedChannel : public WorkerChannel {
 public:
  explicit PlayedChannel(std::shared_ptr<PlayedWorker> worker) : worker_(std::move(worker)) {}
  void Start(Handlers handlers) override { worker_->Start(std::move(handlers)); }
  void Send(std::shared_ptr<const SharedCommand> command, When) override { worker_->Take(*command); }
  size_t queued_bytes() const override { return 0; }
  void Close() override { worker_->Start({}); }

 private:
  const std::shared_ptr<PlayedWorker> worker_;
};

class PlayedConnector : public WorkerConnector {
 public:
  explicit PlayedConnector(bool silent) : silent_(silent) {}
  void Connect(WorkerConnectRequest request, Done done) override {
    auto worker = std::make_shared<PlayedWorker>(silent_);
    {
      MutexLock lock(mutex_);
      workers_[request.worker.id] = worker;
    }
    done(std::make_unique<PlayedChannel>(std::move(worker)));
  }
  std::shared_ptr<PlayedWorker> Find(WorkerId id) {
    MutexLock lock(mutex_);
    auto it = workers_.find(id);
    return it == workers_.end() ? nullptr : it->second;
  }

 private:
  const bool silent_;
  Mutex mutex_;
  std::map<WorkerId, std::shared_ptr<PlayedWorker>> workers_ GUARDED_BY(mutex_);
};

class Replies final : public ReplySink {
 public:
  void Send(IfrtResponse response) override {
    // An answer is an error or a response, never both, never neither.
    CHECK((response.response_metadata().status().code() == 0) ==
          (response.response_case() != IfrtResponse::RESPONSE_NOT_SET));
    CHECK(IfrtResponse().ParseFromString(response.SerializeAsString()));
    MutexLock lock(mutex_);
    ++count_[response.response_metadata().op_id()];
  }
  int CountOf(uint64_t op) {
    MutexLock lock(mutex_);
    return count_[op];
  }

 private:
  Mutex mutex_;
  std::map<uint64_t, int> count_ GUARDED_BY(mutex_);
};

// 2 slices of 1 host with 4 devices each.
class World {
 public:
  explicit World(const SessionInput& input) : connector_(input.silent_workers()) {
    const DeviceType type{"cpu", "cpu", "x86", {"device", "pinned_host"}};
    workers_ = {rm_.AddWorker(0, 0, type), rm_.AddWorker(1, 0, type)};
    for (auto [name, partitions] : {std::pair{"one", 1}, {"two", 2}, {"eight", 8}}) {
      compiler_.Register(name, TestProgram(name, partitions, 2, 2, {0}));
    }
    for (int i = 0; i < input.answers_size(); ++i) {
      auto program = ProgramOf(compiler::CompileAnswer(input.answers(i)), ProgramId{input.answers(i).program().hash()});
      if (!program.ok()) continue;
      compiler_.Register(fmt::format("answer {}", i), std::make_shared<const CompiledProgram>(*std::move(program)));
    }
    ControllerImpl::Options options;
    static ThreadPool& pool = *new ThreadPool("fuzz", 3);
    options.pool = &pool;
    options.resource_manager = &rm_;
    options.compiler = &compiler_;
    options.connector = &connector_;
    options.device_types = {type};
    options.device_memory = input.device_memory();
    controller_ = std::make_unique<ControllerImpl>(std::move(options));
  }

  absl::StatusOr<std::unique_ptr<Session>> Open(const std::string& virtual_slices) {
    std::promise<absl::StatusOr<std::unique_ptr<Session>>> opened;
    controller_->OpenSession({virtual_slices, "fuzz"}, [&](auto session) { opened.set_value(std::move(session)); });
    return opened.get_future().get();
  }
  // What was asked for so far went through the sequencer, and so did what came of it at once.
  void Settle() {
    for (int i = 0; i < 2; ++i) {
      std::promise<void> taken;
      controller_->Snapshot([&](ControllerSnapshot) { taken.set_value(); });
      taken.get_future().get();
    }
  }
  PlayedWorker* worker(uint32_t index) {
    auto found = connector_.Find(workers_[index % 2]);
    return found.get();  // the connector keeps it
  }

 private:
  FakeResourceManager rm_{2, 1, 4};
  PlayedConnector connector_;
  FakeCompileService compiler_;
  std::array<WorkerId, 2> workers_;
  std::unique_ptr<ControllerImpl> controller_;
};

void Upload(HostBufferStore& buffers, const SessionInput::Upload& upload) {
  auto begun = buffers.BeginUpload(upload.handle(), upload.size());
  if (!begun.ok()) return;
  for (const std::string& chunk : upload.chunks()) (*begun)->Append(std::make_shared<const std::string>(chunk));
  (*begun)->Finish(upload.unfinished() ? absl::CancelledError("broken off") : absl::OkStatus()).IgnoreError();
}

void Say(World& world, const SessionInput::Event& event) {
  const auto decoded = DecodeEvent(worker_wire::FrameHead(event.event()) + event.payload());
  PlayedWorker* worker = world.worker(event.worker());
  if (decoded.ok() && worker != nullptr) worker->Emit(*decoded);
}

void Run(const SessionInput& input) {
  static const bool quiet = (InitLog("fuzz", LogLevel::kError, ""), true);
  (void)quiet;
  const auto version =
      NegotiateVersion({input.protocol_min(), input.serdes_min()}, {input.protocol_max(), input.serdes_max()});
  if (!version.ok()) return;
  CHECK(CheckVersion(*version).ok());
  World world(input);
  auto session = world.Open(input.virtual_slices());
  if (!session.ok()) return;
  auto buffers = std::make_shared<HostBufferStore>(int64_t{1} << 20);
  auto replies = std::make_shared<Replies>();
  auto client = std::make_unique<ClientSession>(*std::move(session), *version, buffers, "1:secret");
  world.Settle();
  uint64_t requests = 0;
  for (int i = 0; i < input.steps_size() && i < kStepsMax; ++i) {
    const SessionInput::Step& step = input.steps(i);
    switch (step.step_case()) {
      case SessionInput::Step::kRequest: {
        IfrtRequest request = step.request();
        request.mutable_request_metadata()->set_op_id(++requests);
        client->Handle(request, replies);
        break;
      }
      case SessionInput::Step::kUpload:
        Upload(*buffers, step.upload());
        break;
      case SessionInput::Step::kLookup:
        buffers->Lookup(step.lookup()).IgnoreError();
        break;
      case SessionInput::Step::kDelete:
        buffers->Delete(step.delete_());
        break;
      case SessionInput::Step::kEvent:
        world.Settle();  // what it is about has been sent
        Say(world, step.event());
        break;
      case SessionInput::Step::kLoseWorker:
        world.Settle();
        if (PlayedWorker* worker = world.worker(step.lose_worker())) worker->Break();
        break;
      case SessionInput::Step::STEP_NOT_SET:
        break;
    }
  }
  world.Settle();
  client->Close(absl::CancelledError("the client has left"));
  world.Settle();
  for (uint64_t op = 1; op <= requests; ++op) CHECK(replies->CountOf(op) == 1);
  CHECK(buffers->counts().waiting_bytes == 0);
  CHECK(buffers->counts().download_bytes == 0);
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::SessionInput, switchtower::fuzz::Run)
