// Collectives' messages of peers, which have shown a secret and now say anything: at a worker with two ranks of its
// own, between whatever else happens there.
//
// Nothing is read or written outside of the buffers, which are exactly as large as the operation says. Each call
// ends exactly once (E-3), at the latest when the worker stops.
#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"
#include "worker/collective/exchange_engine.h"
#include "worker/collective/message_header.h"

namespace switchtower::fuzz {
namespace {

constexpr int kStepsMax = 128;
constexpr uint64_t kSelf = 100;       // and its peers 101 and 102, with two ranks each
constexpr size_t kMessageMax = 4096;  // of what isn't as an operation wants it

CollectiveShape::Buffer Buffer(DType dtype, int64_t elements) { return {dtype, elements}; }

// The operations of the program, for a group of `size` ranks. Two of them have more bytes than go in one phase or one
// piece of memory.
CollectiveShape ShapeOf(uint32_t id, int64_t size) {
  CollectiveShape shape;
  const auto blocks = [&](CollectiveKind kind, int64_t in, int64_t out) {
    shape.kind = kind;
    shape.operands = {Buffer(DType::kF32, 6 * in), Buffer(DType::kBF16, 4 * in)};
    shape.results = {Buffer(DType::kF32, 6 * out), Buffer(DType::kBF16, 4 * out)};
    shape.outer = {3, 1};
    shape.chunk_bytes = {8, 8};
  };
  switch (id % 9) {
    case 0:
      shape.operands = shape.results = {Buffer(DType::kF32, 5), Buffer(DType::kF16, 3)};
      return shape;
    case 1:
      shape.operands = shape.results = {Buffer(DType::kS8, 70'001)};
      return shape;
    case 2:
      blocks(CollectiveKind::kReduceScatter, size, 1);
      return shape;
    case 3:
      blocks(CollectiveKind::kAllGather, 1, size);
      return shape;
    case 4:
      shape.kind = CollectiveKind::kAllToAll;
      shape.operands.assign(size, Buffer(DType::kU8, 7));
      shape.results = shape.operands;
      return shape;
    case 5:
      shape.kind = CollectiveKind::kAllToAllArray;
      shape.operands = shape.results = {Buffer(DType::kF32, 6 * size)};
      shape.outer = {3};
      shape.chunk_bytes = {8};
      return shape;
    case 6:
      shape.kind = CollectiveKind::kPermute;
      shape.operands = shape.results = {Buffer(DType::kS16, 5), Buffer(DType::kPred, 1)};
      for (int64_t i = 0; i < size; ++i) shape.source_of.push_back(i == 1 ? -1 : static_cast<int>((i * 2 + 3) % size));
      return shape;
    case 7:
      shape.kind = CollectiveKind::kAllGather;
      shape.operands = {Buffer(DType::kS8, 40'000)};
      shape.results = {Buffer(DType::kS8, 40'000 * size)};
      shape.outer = {1};
      shape.chunk_bytes = {40'000};
      return shape;
    default:
      shape.kind = CollectiveKind::kRaggedAllToAll;
      shape.operands = {Buffer(DType::kF32, 8), Buffer(DType::kF32, 12)};
      shape.operands.resize(6, Buffer(id % 2 == 0 ? DType::kS32 : DType::kS64, 2 * size));
      shape.results = {Buffer(DType::kF32, 12)};
      shape.row_bytes = 8;
      return shape;
  }
}

std::vector<int64_t> RanksOf(uint32_t group) {
  if (group == 0) return {0, 1, 2, 3, 4, 5};
  return group % 2 == 0 ? std::vector<int64_t>{3, 0, 4} : std::vector<int64_t>{2, 1};
}

std::string Again(const std::string& data, size_t size) {
  std::string bytes = data.empty() ? std::string("\0", 1) : data;
  while (bytes.size() < size) bytes += bytes;
  bytes.resize(size);
  return bytes;
}

// Takes messages and tells what became of them when the target wants it.
class PlayedFabric final : public Fabric {
 public:
  explicit PlayedFabric(bool fast) : fast_(fast) {}
  void SetReceiver(Receiver) override {}
  void SetPeerLostHandler(PeerLost) override {}
  void Start(WorkerId) override {}
  void Stop() override { Tell(WorkerId{}, absl::OkStatus()); }
  PeerEndpoint endpoint() const override { return {}; }
  void SetPeers(const PeerTable&) override {}
  void RemovePeer(WorkerId) override {}
  void Send(WorkerId peer, const MessageHeader&, Payload payload, OnSent on_sent) override {
    payload.Own();
    CHECK(payload.ToString().size() == payload.size());  // reads every byte
    MutexLock lock(mutex_);
    on_their_way_.push_back({peer, std::move(payload), std::move(on_sent)});
  }
  bool TrySendFast(WorkerId, const MessageHeader&, size_t bytes, absl::FunctionRef<void(char*)> write) override {
    if (fast_) write(std::vector<char>(bytes).data());
    return fast_;
  }
  FabricStats stats() const override { return {}; }

  // Ends those to `peer`, or all.
  void Tell(WorkerId peer, const absl::Status& how) {
    std::deque<Message> messages;
    {
      MutexLock lock(mutex_);
      messages.swap(on_their_way_);
    }
    for (Message& message : messages) {
      if (message.on_sent != nullptr) message.on_sent(message.to == peer ? how : absl::OkStatus());
    }
  }

 private:
  struct Message {
    WorkerId to;
    Payload payload;
    OnSent on_sent;
  };
  const bool fast_;
  Mutex mutex_;
  std::deque<Message> on_their_way_ GUARDED_BY(mutex_);
};

class Worker {
 public:
  explicit Worker(bool fast) : fabric_(fast) {
    auto gang = std::make_shared<GangTable>();
    gang->self = WorkerId{kSelf};
    for (uint64_t rank = 0; rank < 6; ++rank) gang->ranks.push_back({WorkerId{kSelf + rank / 2}, 0});
    gang_ = std::move(gang);
  }

  void Take(const CollectiveInput::Step& step) {
    switch (step.step_case()) {
      case CollectiveInput::Step::kBegin:
        // Ids begin in ascending order, each once (C-1, C-3).
        if (Id(step.begin()) > newest_) engine_->LaunchBegins(newest_ = Id(step.begin()), gang_);
        break;
      case CollectiveInput::Step::kEnd:
        engine_->LaunchEnded(Id(step.end()));
        break;
      case CollectiveInput::Step::kCancel:
        engine_->CancelLaunch(Id(step.cancel()), absl::CancelledError("cancelled"));
        break;
      case CollectiveInput::Step::kJoin:
        Join(step.join());
        break;
      case CollectiveInput::Step::kMessage:
        Receive(step.message());
        break;
      case CollectiveInput::Step::kLosePeer:
        engine_->OnPeerLost(Peer(step.lose_peer()), absl::DataLossError("it died"));
        break;
      case CollectiveInput::Step::kFailSends:
        fabric_.Tell(Peer(step.fail_sends()), absl::DataLossError("it died"));
        break;
      case CollectiveInput::Step::STEP_NOT_SET:
        break;
    }
    CHECK(engine_->Pending().size() <= kStepsMax);
    AwaitPool();
  }

  void End() {
    engine_->Stop();
    fabric_.Stop();
    engine_.reset();
    for (const auto& call : calls_) CHECK(call->ends == 1);
  }

 private:
  struct Call {
    // Of their own each, so that a byte beyond is seen.
    std::vector<std::vector<char>> operands, results;
    std::atomic<int> ends{0};
  };

  static LaunchId Id(const CollectiveInput::Launch& launch) { return {launch.epoch(), launch.number()}; }
  static WorkerId Peer(uint32_t peer) { return WorkerId{kSelf + peer % 4}; }  // itself and a stranger are among them

  // What was given to the pool has run, and what that gave to it: an input does the same each time.
  void AwaitPool() {
    for (int i = 0; i < 2; ++i) {
      std::promise<void> done;
      engine_->Resume([&done] { done.set_value(); });
      done.get_future().get();
    }
  }

  void Join(const CollectiveInput::Join& join) {
    const int64_t rank = join.rank() % 2;
    const std::vector<int64_t> ranks = RanksOf(join.operation().group());
    const auto position = std::find(ranks.begin(), ranks.end(), rank);
    if (position == ranks.end()) return;
    MemberCall call;
    call.launch = Id(join.operation().launch());
    call.op_id = join.operation().id();
    call.iteration = join.operation().iteration();
    call.group = join.operation().group();
    call.position = static_cast<int>(position - ranks.begin());
    call.plan = engine_->Plan(gang_, ranks).value();
    call.shape = ShapeOf(call.op_id, call.plan->size());
    auto buffers = std::make_shared<Call>();
    calls_.push_back(buffers);
    for (const auto& operand : call.shape.operands) {
      const std::string bytes = Again(join.data(), static_cast<size_t>(operand.bytes()));
      call.operands.push_back(buffers->operands.emplace_back(bytes.begin(), bytes.end()).data());
    }
    for (const auto& result : call.shape.results) {
      call.results.push_back(buffers->results.emplace_back(static_cast<size_t>(result.bytes())).data());
    }
    call.done = [buffers](absl::Status) { ++buffers->ends; };
    engine_->Join(std::move(call));
  }

  void Receive(const CollectiveInput::PeerMessage& message) {
    const CollectiveInput::Operation& operation = message.operation();
    const WorkerId from = Peer(message.peer());
    const auto plan = engine_->Plan(gang_, RanksOf(operation.group())).value();
    const CollectiveShape shape = ShapeOf(operation.id(), plan->size());
    CollectiveHeader header{Id(operation.launch()), {operation.id(), operation.iteration(), operation.group()}};
    header.kind = message.kind() == 0 ? shape.kind : static_cast<CollectiveKind>(message.kind());
    header.phase = static_cast<int>(message.phase() & 0x7fffffff);
    header.fingerprint = message.fingerprint() == 0 ? shape.Fingerprint() : message.fingerprint();
    MessageHeader words = header.Write();
    if (message.words_size() > 0)
      std::copy_n(message.words().begin(), std::min(8, message.words_size()), words.words.begin());
    std::string bytes = message.data();
    const int process = plan->ProcessIndex(from);
    const Algorithm& algorithm = FindAlgorithm(shape.kind);
    if (!message.as_it_is() && process >= 0 && process != plan->self && header.phase < algorithm.phases(shape, *plan)) {
      bytes = Again(bytes, static_cast<size_t>(
                               algorithm.ExpectedBytes(shape, *plan, header.phase, process).value_or(bytes.size())));
    } else {
      bytes.resize(std::min(bytes.size(), kMessageMax));
    }
    if (message.borrowed()) {
      engine_->OnPeerMessage(from, words, ReceivedBytes(std::string_view(bytes)));
      std::fill(bytes.begin(), bytes.end(), '\xff');
    } else {
      std::shared_ptr<char> owned = AllocateBytes(bytes.size());
      std::copy(bytes.begin(), bytes.end(), owned.get());
      engine_->OnPeerMessage(from, words, ReceivedBytes(std::move(owned), bytes.size()));
    }
  }

  PlayedFabric fabric_;
  std::unique_ptr<ExchangeEngine> engine_ =
      std::make_unique<ExchangeEngine>(fabric_, ExchangeEngine::Options{.threads = 1, .early_bytes_max = 1 << 20});
  std::shared_ptr<const GangTable> gang_;
  LaunchId newest_;
  std::vector<std::shared_ptr<Call>> calls_;
};

void Run(const CollectiveInput& input) {
  static const bool quiet = (InitLog("fuzz", LogLevel::kError, ""), true);
  (void)quiet;
  Worker worker(input.fast());
  for (int i = 0; i < input.steps_size() && i < kStepsMax; ++i) worker.Take(input.steps(i));
  worker.End();
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::CollectiveInput, switchtower::fuzz::Run)
