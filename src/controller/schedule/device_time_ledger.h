// How much device time each session has had for its weight, as start-time fair queueing counts it.
//
//   virtual time of a session += expected time of a launch x its devices / weight,   when it is sent
//                             += (measured - expected) / weight,                     when it has ended
//
// Who had nothing to send for a while isn't owed the time it didn't use: nobody falls further behind than kLagMaxNs
// of the session that was sent last.
//
// Place:    controller/schedule; pure.
// Threads:  the home strand.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "types/ids.h"

namespace switchtower {

class DeviceTimeLedger {
 public:
  static constexpr double kLagMaxNs = 100e6;

  void AddSession(SessionId session, int32_t weight) { accounts_[session] = Account{weight, latest_, 0}; }
  void DropSession(SessionId session) { accounts_.erase(session); }

  double VirtualTime(SessionId session) const {
    auto it = accounts_.find(session);
    return it == accounts_.end() ? 0 : std::max(it->second.virtual_ns, latest_ - kLagMaxNs);
  }
  void Sent(SessionId session, int64_t expected_ns) {
    auto it = accounts_.find(session);
    if (it == accounts_.end()) return;
    Account& account = it->second;
    account.virtual_ns = latest_ = std::max(account.virtual_ns, latest_ - kLagMaxNs);
    account.virtual_ns += static_cast<double>(expected_ns) / account.weight;
  }
  // One rank of a launch took `measured_ns` where `expected_ns` were charged for it.
  void Measured(SessionId session, int64_t measured_ns, int64_t expected_ns) {
    auto it = accounts_.find(session);
    if (it == accounts_.end()) return;
    it->second.virtual_ns += static_cast<double>(measured_ns - expected_ns) / it->second.weight;
    it->second.used_ns += measured_ns;
  }
  // Measured device time, over all devices.
  int64_t used_ns(SessionId session) const {
    auto it = accounts_.find(session);
    return it == accounts_.end() ? 0 : it->second.used_ns;
  }

 private:
  struct Account {
    int32_t weight = 1;
    double virtual_ns = 0;
    int64_t used_ns = 0;
  };
  absl::flat_hash_map<SessionId, Account> accounts_;
  double latest_ = 0;  // virtual time at which the last launch was sent
};

}  // namespace switchtower
