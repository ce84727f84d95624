// The host buffers of a session: uploads, requests that use them, downloads and deletes in any order.
//
// Whoever takes a buffer hears its end exactly once, with all bytes or with an error (H-1); whoever waits for room is
// woken; nothing is left when the session has ended.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "frontdoor/host_buffer_store.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"

namespace switchtower::fuzz {
namespace {

constexpr int64_t kWaitingMax = 4096;
constexpr int64_t kChunkMax = 8192;

struct Reader {
  int64_t expected = 0, received = 0;
  int ends = 0;
};

class Client {
 public:
  void Take(const HostBuffersInput::Step& step) {
    const uint64_t handle = step.handle() % 8;
    auto upload = uploads_.find(handle);
    switch (step.kind()) {
      case HostBuffersInput::Step::BEGIN:
        if (auto begun = store_->BeginUpload(handle, step.size()); begun.ok()) {
          CHECK(uploads_.emplace(handle, *std::move(begun)).second);
        }
        break;
      case HostBuffersInput::Step::APPEND:
        if (upload == uploads_.end()) break;
        upload->second->Append(std::make_shared<const std::string>(
            static_cast<size_t>(static_cast<uint64_t>(step.size()) % kChunkMax), 'x'));
        break;
      case HostBuffersInput::Step::FINISH:
      case HostBuffersInput::Step::BREAK:
        if (upload == uploads_.end()) break;
        upload->second
            ->Finish(step.kind() == HostBuffersInput::Step::FINISH ? absl::OkStatus() : absl::CancelledError("broken"))
            .IgnoreError();
        uploads_.erase(upload);
        break;
      case HostBuffersInput::Step::WAIT_FOR_ROOM:
        // One wait at a time, as its stream does.
        if (upload == uploads_.end() || !waiting_.insert(upload->second.get()).second) break;
        ++waits_;
        upload->second->WhenRoom([this, who = upload->second.get()] {
          ++woken_;
          waiting_.erase(who);
        });
        break;
      case HostBuffersInput::Step::TAKE:
        if (auto taken = store_->Take(handle, step.size()); taken.ok()) taken_.push_back({*taken, step.size()});
        break;
      case HostBuffersInput::Step::CONSUME:
        Consume();
        break;
      case HostBuffersInput::Step::DISCARD:
        store_->Discard(handle);
        break;
      case HostBuffersInput::Step::PUT:
        store_->Put(handle, {std::make_shared<const std::string>("download")}).IgnoreError();
        break;
      case HostBuffersInput::Step::LOOKUP:
        store_->Lookup(handle).IgnoreError();
        break;
      case HostBuffersInput::Step::DELETE:
        store_->Delete(handle);
        break;
      case HostBuffersInput::Step::CLOSE:
        store_->Close(absl::CancelledError("closed"));
        break;
      default:
        break;
    }
    CHECK(store_->counts().waiting_bytes >= 0 && store_->counts().download_bytes >= 0);
  }

  void End() {
    while (!taken_.empty()) Consume();
    store_->Close(absl::CancelledError("closed"));
    CHECK(store_->counts().waiting_bytes == 0 && store_->counts().download_bytes == 0 && store_->counts().buffers == 0);
    // As an upload's stream does when it sees that its session is gone.
    for (auto& [handle, upload] : uploads_) upload->Finish(absl::CancelledError("broken off")).IgnoreError();
    for (const auto& reader : readers_) CHECK(reader->ends == 1);
    CHECK(woken_ == waits_);
  }

 private:
  struct Taken {
    std::shared_ptr<HostBuffer> buffer;
    int64_t expected = 0;
  };
  void Consume() {
    if (taken_.empty()) return;
    auto reader = std::make_shared<Reader>();
    reader->expected = taken_.back().expected;
    readers_.push_back(reader);
    taken_.back().buffer->Consume(
        [reader](HostBuffer::Chunk chunk) { reader->received += static_cast<int64_t>(chunk->size()); },
        [reader](absl::Status status) {
          ++reader->ends;
          CHECK(!status.ok() || reader->expected < 0 || reader->received == reader->expected);
        });
    taken_.pop_back();
  }

  std::shared_ptr<HostBufferStore> store_ = std::make_shared<HostBufferStore>(kWaitingMax);
  std::map<uint64_t, std::unique_ptr<HostBufferStore::Upload>> uploads_;
  std::vector<Taken> taken_;
  std::vector<std::shared_ptr<Reader>> readers_;
  std::set<HostBufferStore::Upload*> waiting_;
  int waits_ = 0, woken_ = 0;
};

void Run(const HostBuffersInput& input) {
  Client client;
  for (const HostBuffersInput::Step& step : input.steps()) client.Take(step);
  client.End();
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::HostBuffersInput, switchtower::fuzz::Run)
