// Who may command this worker: decides on a controller's hello. Pure state, no sockets, no clock.
//
// Place:    worker/agent, under WorkerServer.
// Threads:  one owner.
// Invariants: F-1 a controller of an older epoch than one that was admitted is never admitted (S-3). F-2 only who knows
//           the secret of a lease that the resource manager announced is (S-11).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "types/ids.h"
#include "wire/worker/hello.h"

namespace switchtower {

// A lease on this worker's slice, as the resource manager announces it to the worker.
struct AllowedLease {
  std::string secret;
  uint64_t home_epoch = 0;
};

class LeaseFence {
 public:
  struct Decision {
    enum class Kind {
      kAdmit,
      kRefuse,
      kWait,  // the lease may be on its way: ask again when something changed; `why` if patience ends
    };
    Kind kind = Kind::kRefuse;
    absl::Status why;
  };

  void SetIdentity(WorkerId worker, std::string cluster_id);
  void SetAllowedLeases(std::vector<AllowedLease> leases) { leases_ = std::move(leases); }

  Decision Judge(const ControllerHello& hello) const;
  void Admitted(const ControllerHello& hello) { newest_epoch_ = std::max(newest_epoch_, hello.home_epoch); }
  // The lease that an admitted controller came with is still there.
  bool StillAllowed(const ControllerHello& hello) const { return FindLease(hello) != nullptr; }
  std::optional<WorkerId> identity() const { return worker_; }

 private:
  const AllowedLease* FindLease(const ControllerHello& hello) const;

  std::optional<WorkerId> worker_;
  std::string cluster_id_;
  std::vector<AllowedLease> leases_;
  uint64_t newest_epoch_ = 0;
};

}  // namespace switchtower
