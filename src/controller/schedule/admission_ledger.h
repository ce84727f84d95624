// Who holds how much memory of each device, and whether an operation's results still fit (S-5).
//
// A charge is taken when an operation is admitted, before anything is sent, for all devices at once. It is given
// back when the array was deleted AND every launch that was sent before that has ended, since those may still
// use it. Names of one buffer (bindings) share its charge.
//
// Place:    controller/schedule; knows no commands. Off (limit 0) it does nothing and costs nothing. On, an array costs
//           one charge and work in proportion to its workers (SeatTally), until shards of it get names of their own.
// Threads:  the home strand.
// Errors:   RESOURCE_EXHAUSTED saying what was asked, what is free and who holds the rest; of other sessions no more
//           than their sum (I-7).
// Invariants: M-1 on no device do charges exceed the limit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "controller/api/memory_report.h"
#include "controller/cluster/place.h"
#include "controller/schedule/seat_tally.h"
#include "types/ids.h"

namespace switchtower {

class AdmissionLedger {
 public:
  explicit AdmissionLedger(int64_t bytes_per_device) : limit_(bytes_per_device) {}
  ~AdmissionLedger();

  bool enabled() const { return limit_ > 0; }
  // Of each device; 0: not limited.
  int64_t limit() const { return limit_; }

  struct Need {
    DeviceListPtr devices;
    int64_t bytes = 0;  // on each of them
  };
  enum class Verdict { kFits, kWait, kNever };
  // kWait: it will fit once what is under way has ended; kNever: nothing is under way that could make room.
  // `donated` are arrays whose memory the operation takes over, where no other array shares it.
  Verdict Ask(SessionId session, const std::vector<Need>& needs, const std::vector<ArrayId>& donated,
              bool anything_in_flight) const;
  // For kNever: a sentence, and the list of who holds the device where most is missing.
  struct Names {
    std::function<std::string(const Place&)> place;
    std::function<bool(LaunchId)> is_running;
  };
  absl::Status Explain(SessionId session, const std::string& what, const std::vector<Need>& needs,
                       const Names& names) const;

  // What memory is held for. Shared by the charges of an operation.
  struct Purpose {
    SessionId session;
    uint64_t user_context = 0;
    std::string creator;  // "result of jit_step"
    LaunchId launch;      // that fills the memory; none: the host
  };
  using PurposePtr = std::shared_ptr<const Purpose>;

  // Charges of one operation that end with the returned token (temporaries of a launch).
  using Token = std::shared_ptr<void>;
  Token ChargeWhile(const PurposePtr& purpose, const std::vector<Need>& needs);
  void ChargeArray(ArrayKey array, const PurposePtr& purpose, const std::vector<Need>& needs);
  // `to` at `place` shares the charge of `from` there.
  void Bind(ArrayKey from, ArrayKey to, const Place& place);
  // The array's memory goes over to a launch that was just admitted. Adds to `given` what was the array's alone.
  void Donate(ArrayKey array, std::vector<Need>* given);
  // What of `given` is more than `needs` on its device.
  static std::vector<Need> Excess(const std::vector<Need>& given, const std::vector<Need>& needs);
  // Gives the array's charges back once all launches up to `last_sent` ended.
  void Delete(ArrayKey array, LaunchId last_sent);
  // All launches before `oldest_running` (all sent ones, if none runs) have ended.
  void Ended(bool any_running, LaunchId oldest_running);
  void DropSession(SessionId session, LaunchId last_sent);
  // The devices of a lost worker are empty.
  void DropSeat(int32_t seat);

  int64_t used(const Place& place) const { return used_.At(place); }
  const SeatTally<int64_t>& used() const { return used_; }

 private:
  struct Charge;
  using ChargePtr = std::shared_ptr<Charge>;
  // What an array holds. Most do it on all devices of a list alike: one charge. A buffer that got another name has one
  // of its own, which the names share.
  struct Holding {
    std::vector<ChargePtr> alike;
    absl::flat_hash_map<Place, ChargePtr> by_place;
  };
  ChargePtr Make(const PurposePtr& purpose, const Need& need);
  static void Split(Holding& holding);
  // What the session's arrays alone hold.
  std::vector<Need> HeldAlone(const Holding& holding) const;
  std::vector<const Charge*> ChargesOn(const Place& place) const;
  MemoryReport Report(SessionId session, const Place& place, const Names& names) const;

  struct Deferred {
    LaunchId after;
    Holding charges;
  };
  const int64_t limit_;
  SeatTally<int64_t> used_;
  absl::flat_hash_set<const Charge*> charges_;  // all that hold something
  // Losses of workers are numbered; by seat, the last one's number. A charge that is older holds nothing there.
  std::vector<uint64_t> emptied_;
  uint64_t losses_ = 0;
  absl::flat_hash_map<ArrayKey, Holding> arrays_;
  std::deque<Deferred> deferred_;
};

}  // namespace switchtower
