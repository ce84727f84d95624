#include "worker/exec/peer_router.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace switchtower {

PeerRouter::PeerRouter(Fabric& fabric) : fabric_(fabric) {
  fabric_.SetReceiver([this](WorkerId from, const MessageHeader& header, ReceivedBytes bytes) {
    const uint64_t kind = header.words[0] & 0xff;
    if (kind >= kKinds || handlers_[kind] == nullptr) {
      LogError("peer message of kind {} from worker {} dropped, nobody handles it", kind, from.value);
      return;
    }
    handlers_[kind]->OnPeerMessage(from, header, std::move(bytes));
  });
  fabric_.SetPeerLostHandler([this](WorkerId peer, absl::Status why) {
    for (Handler* handler : handlers_) {
      if (handler != nullptr) handler->OnPeerLost(peer, why);
    }
  });
}

void PeerRouter::SetHandler(PeerMessageKind kind, Handler* handler) {
  const auto index = static_cast<size_t>(kind);
  CHECK(index < kKinds);
  handlers_[index] = handler;
}

void PeerRouter::Start(WorkerId self) { fabric_.Start(self); }

void PeerRouter::Stop() { fabric_.Stop(); }

}  // namespace switchtower
