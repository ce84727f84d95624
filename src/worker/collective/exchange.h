// One collective of one group in one iteration of one launch, as this process sees it.
//
//   early messages --> [first member comes: plan, shape] --> members and
//   messages gather --> phases --> done
//
// Place:    worker/collective; the engine's state for one match key. The engine runs the steps.
// Threads:  fields are guarded by the engine's mutex, but while `busy` is set the buffers, messages and the plan belong
//           to whoever set it.
// Lifetime: shared by the engine's table, queued work and messages being sent (which point into the members' buffers:
//           `pins` counts them, and no member is completed before it is zero).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "base/net/payload.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/member_call.h"

namespace switchtower {

class ExchangeEngine;

// Bytes of a peer, kept. Small ones need no memory of their own.
class HeldMessage {
 public:
  HeldMessage() = default;
  explicit HeldMessage(ReceivedBytes bytes) : size_(bytes.size()) {
    if (size_ > small_.size()) {
      owner_ = std::move(bytes).Take();
    } else if (size_ > 0) {
      std::memcpy(small_.data(), bytes.data(), size_);
    }
  }
  size_t size() const { return size_; }
  // Memory that it takes, about, with the exchange that is made for it if its ranks haven't come.
  size_t cost() const { return size_ + 2048; }
  std::string_view view() const { return {owner_ != nullptr ? owner_.get() : small_.data(), size_}; }

 private:
  size_t size_ = 0;
  std::shared_ptr<char> owner_;
  std::array<char, 64> small_;
};

struct ExchangeKey {
  uint32_t op_id = 0;
  uint32_t iteration = 0;
  uint32_t group = 0;
  friend bool operator==(const ExchangeKey&, const ExchangeKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ExchangeKey& key) {
    return H::combine(std::move(h), key.op_id, key.iteration, key.group);
  }
};

struct Exchange;
using ExchangePtr = std::shared_ptr<Exchange>;

// A launch that runs here, or of which peers' messages came first.
struct ExchangeLaunch {
  LaunchId id;
  bool begun = false;
  absl::Status cause;     // not OK: every collective of the launch ends with it
  size_t held_bytes = 0;  // cost of messages whose members haven't come
  absl::flat_hash_map<ExchangeKey, ExchangePtr> exchanges;
  std::vector<MemberCall> held_back;  // by a fault point
  bool idle() const { return exchanges.empty() && held_back.empty(); }
};

struct Exchange : std::enable_shared_from_this<Exchange> {
  struct Member {
    bool here = false;
    absl::InlinedVector<const char*, 4> operands;
    absl::InlinedVector<char*, 4> results;
    absl::AnyInvocable<void(absl::Status)> done;
  };
  struct EarlyMessage {
    WorkerId from;
    int phase = 0;
    uint64_t fingerprint = 0;
    HeldMessage message;
  };
  struct Inbox {
    absl::InlinedVector<HeldMessage, 4> messages;  // by process
    absl::InlinedVector<bool, 8> here;
    int missing = 0;
  };
  // What the completion of a send needs; lives in the exchange so that the callback is one pointer to it.
  struct SendSlot {
    Exchange* exchange = nullptr;
    int to = 0;
    bool pinned = false;
  };

  Exchange(ExchangeEngine* engine, std::shared_ptr<ExchangeLaunch> launch, ExchangeKey key, CollectiveKind kind)
      : engine(engine), launch(std::move(launch)), key(key), kind(kind), since(std::chrono::steady_clock::now()) {}

  // The first member brings plan and shape; later ones must agree.
  absl::Status Attach(MemberCall& call, uint64_t call_fingerprint);
  // Puts a message into its inbox. Messages of workers outside the group are dropped.
  absl::Status Place(WorkerId from, int phase, uint64_t message_fingerprint, HeldMessage message);
  // Whether something that `worker` has still to send is needed.
  bool NeedsMessageOf(WorkerId worker) const;
  bool attached() const { return plan != nullptr; }
  bool complete_here() const { return attached() && arrived == members.size(); }
  // The members alone, or with the messages of a phase, which must all be here.
  ExchangeView View() const;
  ExchangeView View(int phase) const;
  // "all-reduce 3 of launch 1.7"
  std::string Describe() const;

  ExchangeEngine* const engine;
  const std::shared_ptr<ExchangeLaunch> launch;
  const ExchangeKey key;
  const CollectiveKind kind;
  const std::chrono::steady_clock::time_point since;

  // From the first member.
  std::shared_ptr<const GroupPlan> plan;
  CollectiveShape shape;
  uint64_t fingerprint = 0;
  const Algorithm* algorithm = nullptr;
  int phases = 0;

  absl::InlinedVector<Member, 4> members;  // in the order of plan->local()
  size_t arrived = 0;
  std::vector<EarlyMessage> early;
  std::array<Inbox, 2> inboxes;  // by phase
  absl::InlinedVector<SendSlot, 4> send_slots;

  int stage = 0;       // 2 * phase: to send; 2 * phase + 1: to apply; 2 * phases: at the end
  bool busy = false;   // a step is running
  bool ended = false;  // members were completed
  int pins = 0;
  int parts = 0;  // of the step that runs
  int parts_left = 0;

 private:
  void Prepare(MemberCall& call, uint64_t call_fingerprint);
};

}  // namespace switchtower
