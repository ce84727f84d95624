// One local source shard of one transfer: when it has its value, its pieces go to their destinations.
//
// Place:    worker/exec; made by TransferTable. Also the header of transfer messages between workers.
// Threads:  started on the intake; goes on where the source becomes ready and on `io`.
// Lifetime: keeps itself and the source's buffer (a pin) until the last piece has left.
// Errors:   a source's error goes to every destination instead of its pieces.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "transport/fabric.h"
#include "types/device.h"
#include "types/ids.h"
#include "types/sharding.h"
#include "worker/engine/engine.h"
#include "worker/exec/inbound_transfer.h"
#include "worker/exec/peer_router.h"
#include "worker/exec/work_queue.h"
#include "worker/store/buffer_entry.h"
#include "worker_api/events.h"

namespace switchtower {

// Header words: kind, transfer epoch, transfer number, destination ordinal, piece. The body is the piece's bytes, dense
// and row major, or an EncodePeerStatus.
struct TransferMessage {
  LaunchId transfer;
  int32_t ordinal = 0;
  uint32_t piece = 0;
  bool is_error = false;

  MessageHeader ToHeader() const {
    MessageHeader header;
    header.words = {PeerRouter::FirstWord(PeerMessageKind::kTransfer, is_error ? 1 : 0), transfer.epoch,
                    transfer.number, static_cast<uint64_t>(static_cast<uint32_t>(ordinal)), piece};
    return header;
  }
  static TransferMessage FromHeader(const MessageHeader& header) {
    return {{header.words[1], header.words[2]},
            static_cast<int32_t>(header.words[3]),
            static_cast<uint32_t>(header.words[4]),
            PeerRouter::UpperBits(header) == 1};
  }
};

struct OutgoingPiece {
  uint32_t index = 0;
  Box box;  // inside the source shard
  PhysicalDevice destination;
  std::shared_ptr<InboundTransfer> local;  // null: on another worker
  bool whole = false;                      // it is the whole destination shard
  DType dtype = DType::kInvalid;           // of the destination
};

// Whether and whom to tell when bytes were on their way.
struct TransferClock {
  std::atomic<bool> on{false};
  std::function<void(TransferTimes::Span)> tell;  // any thread
};

class OutboundTransfer : public std::enable_shared_from_this<OutboundTransfer> {
 public:
  struct Parts {
    Engine* engine;
    Fabric* fabric;
    std::shared_ptr<WorkQueue> io;
    std::shared_ptr<const TransferClock> clock;
  };
  static void Start(Parts parts, LaunchId id, const BufferEntryPtr& source, std::vector<OutgoingPiece> pieces);

 private:
  OutboundTransfer(Parts parts, LaunchId id, const BufferEntryPtr& source, std::vector<OutgoingPiece> pieces);

  void Run();
  // By a copy inside the engine, if the piece is a whole shard on both sides and asks for no other layout.
  bool CopyInEngine(const OutgoingPiece& piece, const BufferEntry::Content& source);
  void SendPiece(const OutgoingPiece& piece, const DenseBytes& host);
  void FailPiece(const OutgoingPiece& piece, const absl::Status& cause);
  void FailAll(const absl::Status& cause);

  const Parts parts_;
  const LaunchId id_;
  std::shared_ptr<const EntryPin> pin_;
  std::vector<OutgoingPiece> pieces_;
};

}  // namespace switchtower
