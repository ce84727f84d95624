#include "controller/sim/sim_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace switchtower {
namespace {

// Host bytes that come some time after the request.
class LateBuffer : public HostBuffer {
 public:
  LateBuffer(SimLoop& loop, int64_t delay_ns, std::string bytes)
      : loop_(loop), delay_ns_(delay_ns), bytes_(std::make_shared<const std::string>(std::move(bytes))) {}
  void Consume(absl::AnyInvocable<void(Chunk)> on_chunk, Callback<absl::Status> on_end) override {
    loop_.After(delay_ns_, [bytes = bytes_, on_chunk = std::move(on_chunk), on_end = std::move(on_end)]() mutable {
      on_chunk(bytes);
      on_end(absl::OkStatus());
    });
  }
  int64_t size() const override { return static_cast<int64_t>(bytes_->size()); }

 private:
  SimLoop& loop_;
  const int64_t delay_ns_;
  const std::shared_ptr<const std::string> bytes_;
};

std::string BytesOf(const SimWords& words, size_t begin, size_t count) {
  std::string bytes(count * sizeof(uint32_t), 0);
  std::memcpy(bytes.data(), words.data() + begin, bytes.size());
  return bytes;
}

}  // namespace

SimWorld::SimWorld(SimCluster& cluster, uint64_t seed, int64_t temporaries_max) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); };
  std::vector<uint64_t> devices(cluster.num_devices());
  for (size_t i = 0; i < devices.size(); ++i) devices[i] = i;
  for (int i = 0; i < 6; ++i) {
    std::shuffle(devices.begin(), devices.end(), random);
    const int sizes[] = {1, 2, 2, 3, 4, 6};
    const int size = std::min(sizes[draw(6)], cluster.num_devices());
    gangs.emplace_back(devices.begin(), devices.begin() + (kElements % size == 0 ? size : 1));
  }
  programs.resize(kElements + 1);
  for (size_t ranks : {1, 2, 3, 4, 6}) {
    for (int i = 0; i < 3; ++i) {
      Program program;
      program.name = fmt::format("p{}_{}", ranks, i);
      program.parameters = i;
      program.results = 1 + draw(2);
      program.donates = i > 0 && draw(2) == 0;
      cluster.Register(program.name, static_cast<int>(ranks), program.parameters, program.results,
                       program.donates ? std::vector<int32_t>{0} : std::vector<int32_t>{}, kElements,
                       temporaries_max == 0 ? 0 : draw(static_cast<int>(temporaries_max)));
      programs[ranks].push_back(std::move(program));
    }
  }
}

SimClient::SimClient(SimCluster& cluster, const SimWorld& world, Options options)
    : cluster_(cluster),
      world_(world),
      options_(options),
      random_(options.seed),
      session_(cluster.Open(options.standing)) {
  cluster_.loop().Post([this] { Step(); });
}

SimClient::~SimClient() {
  if (!std::exchange(closed_, true)) session_->Close(absl::OkStatus());
  cluster_.loop().RunAll();
}

std::string SimClient::Describe() const {
  return fmt::format("client {}: step {} of {}, {}, {} answers missing, {} launches in flight\n",
                     session_->description().id.value, steps_, options_.steps,
                     closed_ ? "left early" : (ended_ ? "at its end" : "going on"), reads_open_, session_->under_way());
}

void SimClient::Check(const absl::Status& status, const char* what) {
  if (!status.ok()) wrong_.push_back(fmt::format("{}: {}", what, status.ToString()));
}

ArraySpec SimClient::SpecOn(size_t gang) const { return TiledSpec({SimWorld::kElements}, world_.gangs[gang]); }

uint64_t SimClient::Handle(size_t gang, const std::string& program) {
  uint64_t& handle = executables_[{gang, program}];
  if (handle == 0) handle = cluster_.Compile(*session_, program, world_.gangs[gang]);
  return handle;
}

void SimClient::Next() {
  const int64_t delay_ns = Chance(0.7) ? Draw(5'000) : Draw(300'000);
  cluster_.loop().After(delay_ns, [this] { Step(); });
}

void SimClient::Step() {
  if (closed_) return;
  if (steps_++ >= options_.steps || Chance(options_.ends_early)) return Finish();
  const int what = Draw(100);
  if (arrays_.size() < 2 || what < 15) {
    Put();
  } else if (what < 65) {
    Execute();
  } else if (what < 77) {
    Reshard();
  } else if (what < 90) {
    Drop(Draw(static_cast<int>(arrays_.size())));
  } else if (what < 95) {
    Read(Draw(static_cast<int>(arrays_.size())));
  } else {
    AwaitSome();
  }
  if (session_->under_way() < options_.launches_max) return Next();
  session_->WhenBelow(options_.launches_max, [this] { cluster_.loop().Post([this] { Next(); }); });
}

void SimClient::Put() {
  Array array{++last_id_, static_cast<size_t>(Draw(static_cast<int>(world_.gangs.size()))), {}};
  for (int64_t i = 0; i < SimWorld::kElements; ++i) array.value.push_back(static_cast<uint32_t>(random_()));
  const size_t ranks = world_.gangs[array.gang].size(), part = SimWorld::kElements / ranks;
  std::vector<HostShard> shards;
  for (size_t rank = 0; rank < ranks; ++rank) {
    shards.push_back(
        {{static_cast<int32_t>(rank)},
         std::make_shared<LateBuffer>(cluster_.loop(), Draw(200'000), BytesOf(array.value, rank * part, part)),
         {}});
  }
  Check(session_->MakeArray(ArrayId{array.id}, SpecOn(array.gang), std::move(shards), 0), "put");
  arrays_.push_back(std::move(array));
}

void SimClient::Execute() {
  const size_t gang = Chance(0.7) ? arrays_[Draw(static_cast<int>(arrays_.size()))].gang
                                  : static_cast<size_t>(Draw(static_cast<int>(world_.gangs.size())));
  std::vector<size_t> there;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].gang == gang) there.push_back(i);
  }
  const auto& programs = world_.programs[world_.gangs[gang].size()];
  const SimWorld::Program& program = programs[there.empty() ? 0 : Draw(static_cast<int>(programs.size()))];
  ExecuteRequest request;
  request.executable = Handle(gang, program.name);
  std::vector<SimWords> values;
  std::vector<size_t> chosen;
  for (int p = 0; p < program.parameters; ++p) {
    chosen.push_back(there[Draw(static_cast<int>(there.size()))]);
    request.arguments.push_back(ArrayId{arrays_[chosen.back()].id});
    values.push_back(arrays_[chosen.back()].value);
  }
  std::vector<Array> results;
  for (int r = 0; r < program.results; ++r) {
    results.push_back({++last_id_, gang, SimResult(program.name, values, r, SimWorld::kElements)});
    request.results.push_back(ArrayId{last_id_});
  }
  const absl::StatusOr<ExecuteReply> reply = session_->Execute(request, nullptr);
  Check(reply.status(), "execute");
  if (program.donates && std::count(chosen.begin(), chosen.end(), chosen[0]) == 1) {
    Check(session_->Destruct(std::vector<ArrayId>{request.arguments[0]}), "destruct what was donated");
    arrays_.erase(arrays_.begin() + static_cast<ptrdiff_t>(chosen[0]));
  }
  for (Array& result : results) arrays_.push_back(std::move(result));
}

void SimClient::Reshard() {
  const size_t index = Draw(static_cast<int>(arrays_.size()));
  Array moved{++last_id_, static_cast<size_t>(Draw(static_cast<int>(world_.gangs.size()))), arrays_[index].value};
  const ArrayId from{arrays_[index].id}, to{moved.id};
  const ArraySpec spec = SpecOn(moved.gang);
  Check(session_->Reshard({&from, 1}, {&to, 1}, {&spec, 1}, CopySemantics::kReuseInput, 0), "reshard");
  arrays_.push_back(std::move(moved));
}

void SimClient::Read(size_t index) {
  const ArrayId from{arrays_[index].id}, whole{++last_id_};
  const ArraySpec spec = TiledSpec({SimWorld::kElements}, {world_.gangs[arrays_[index].gang][0]});
  Check(session_->Reshard({&from, 1}, {&whole, 1}, {&spec, 1}, CopySemantics::kReuseInput, 0), "gather");
  ++reads_open_;
  session_->Read(whole, std::nullopt,
                 [this, value = arrays_[index].value](absl::StatusOr<std::vector<HostBuffer::Chunk>> chunks) {
                   --reads_open_;
                   if (closed_ && absl::IsCancelled(chunks.status())) return;
                   if (options_.may_be_refused && absl::IsResourceExhausted(chunks.status())) {
                     ++refusals_;
                     if (chunks.status().message().find("this session's arrays hold") == absl::string_view::npos) {
                       Check(chunks.status(), "a refusal that doesn't name who holds the memory");
                     }
                     return;
                   }
                   if (!chunks.ok()) return Check(chunks.status(), "read");
                   std::string bytes;
                   for (const HostBuffer::Chunk& chunk : *chunks) bytes += *chunk;
                   ++values_checked_;
                   if (bytes != BytesOf(value, 0, value.size())) wrong_.push_back("a value is wrong");
                 });
  Check(session_->Destruct({&whole, 1}), "destruct");
}

void SimClient::AwaitSome() {
  std::vector<ArrayId> arrays;
  for (int i = 0; i < 3; ++i) arrays.push_back(ArrayId{arrays_[Draw(static_cast<int>(arrays_.size()))].id});
  ++reads_open_;
  session_->WhenReady(arrays, [this](absl::Status status) {
    --reads_open_;
    if ((closed_ && absl::IsCancelled(status)) || (options_.may_be_refused && absl::IsResourceExhausted(status)))
      return;
    Check(status, "wait");
  });
}

void SimClient::Drop(size_t index) {
  const ArrayId array{arrays_[index].id};
  Check(session_->Destruct({&array, 1}), "destruct");
  arrays_.erase(arrays_.begin() + static_cast<ptrdiff_t>(index));
}

void SimClient::Finish() {
  ended_ = true;
  if (steps_ <= options_.steps) {
    closed_ = true;
    session_->Close(absl::CancelledError("the client left"));
    return;
  }
  for (size_t i = 0; i < arrays_.size(); ++i) Read(i);
  while (!arrays_.empty()) Drop(0);
}

}  // namespace switchtower
