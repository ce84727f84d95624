// Workers that are a fabric and what came in. For tests of this folder.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/fabric.h"
#include "transport/socket_fabric.h"

namespace switchtower {

struct Message {
  WorkerId from;
  MessageHeader header;
  std::string bytes;
};

class FabricWorker {
 public:
  FabricWorker(std::unique_ptr<Fabric> fabric, uint64_t id) : fabric(std::move(fabric)), id{id} {
    this->fabric->SetReceiver([this](WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
      MutexLock lock(mutex_);
      messages_.push_back({from, header, std::string(bytes.view())});
      changed_.NotifyAll();
    });
    this->fabric->SetPeerLostHandler([this](WorkerId peer, absl::Status why) {
      MutexLock lock(mutex_);
      lost_.emplace_back(peer, std::move(why));
      changed_.NotifyAll();
    });
    this->fabric->Start(this->id);
  }
  // Before what the callbacks touch goes.
  ~FabricWorker() { fabric->Stop(); }

  std::vector<Message> Await(size_t count) {
    MutexLock lock(mutex_);
    while (messages_.size() < count) changed_.Wait(mutex_);
    return std::exchange(messages_, {});
  }
  std::pair<WorkerId, absl::Status> AwaitLost() {
    MutexLock lock(mutex_);
    while (lost_.empty()) changed_.Wait(mutex_);
    return lost_.front();
  }
  size_t lost_count() {
    MutexLock lock(mutex_);
    return lost_.size();
  }
  std::future<absl::Status> Send(const FabricWorker& to, uint64_t tag, Payload payload) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    MessageHeader header;
    header.words[0] = tag;
    header.words[7] = ~tag;
    fabric->Send(to.id, header, std::move(payload),
                 [promise](absl::Status status) { promise->set_value(std::move(status)); });
    return promise->get_future();
  }
  void Post(const FabricWorker& to, uint64_t tag, Payload payload) {
    MessageHeader header;
    header.words[0] = tag;
    header.words[7] = ~tag;
    fabric->Send(to.id, header, std::move(payload), nullptr);
  }

  std::unique_ptr<Fabric> fabric;
  const WorkerId id;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Message> messages_;
  std::vector<std::pair<WorkerId, absl::Status>> lost_;
};

inline PeerTable TableOf(const FabricWorker& worker, const std::string& secret) {
  PeerEndpoint endpoint = worker.fabric->endpoint();
  endpoint.secret = secret;
  return {{worker.id, endpoint}};
}

inline SocketFabricOptions TestOptions(FabricMode mode, size_t ring_bytes = size_t{8} << 20) {
  SocketFabricOptions options;
  options.mode = mode;
  options.ring_bytes = ring_bytes;
  options.cluster_id = "test";
  options.build = "test-build";
  options.secret_grace = std::chrono::milliseconds(1);
  return options;
}

inline std::string Pattern(size_t size, int seed) {
  std::string bytes(size, static_cast<char>(seed));
  for (uint64_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t word = (i + seed) * 0x9e3779b97f4a7c15;
    __builtin_memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

}  // namespace switchtower
