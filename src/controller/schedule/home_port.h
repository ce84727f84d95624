// Where a session hands its operations to the sequencer of its lease.
//
// Threads:  Submit and EndSession from any thread; operations of one thread keep their order.
// Lifetime: shared; once the home is gone operations are dropped. Sessions are closed before that, which
//           answers everything that waits.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "controller/cluster/loss_ledger.h"
#include "controller/cluster/poster.h"
#include "controller/schedule/sequencer.h"

namespace switchtower {

class HomePort {
 public:
  HomePort(std::shared_ptr<Poster> poster, Sequencer& sequencer, std::shared_ptr<const LossLedger> losses)
      : poster_(std::move(poster)), sequencer_(sequencer), losses_(std::move(losses)) {}

  void AddSession(SessionId session, std::string peer, SessionStanding standing,
                  std::vector<std::pair<DeviceId, Place>> devices, std::shared_ptr<SessionFlow> flow) {
    poster_->Post([this, session, peer = std::move(peer), standing, devices = std::move(devices),
                   flow = std::move(flow)]() mutable {
      sequencer_.AddSession(session, std::move(peer), standing, std::move(devices), std::move(flow));
    });
  }
  void ServeCalls(SessionId session, std::shared_ptr<ClientCallServer> server) {
    poster_->Post(
        [this, session, server = std::move(server)]() mutable { sequencer_.ServeCalls(session, std::move(server)); });
  }
  // Tasks run only while the home lives, and it outlives no port's tasks: `this` is kept by the home.
  void Submit(Op op) {
    poster_->RunOrPost([this, op = std::move(op)]() mutable { sequencer_.Take(std::move(op)); });
  }
  // Dropped, and `done` with it, once the home is gone.
  void ReadMemory(std::vector<std::pair<DeviceId, Place>> devices, Callback<std::vector<DeviceMemory>> done) {
    poster_->Post([this, devices = std::move(devices), done = std::move(done)]() mutable {
      sequencer_.ReadMemory(std::move(devices), std::move(done));
    });
  }
  void EndSession(SessionId session, absl::Status reason) {
    poster_->Post([this, session, reason = std::move(reason)] { sequencer_.EndSession(session, reason); });
  }
  const std::shared_ptr<const LossLedger>& losses() const { return losses_; }

 private:
  const std::shared_ptr<Poster> poster_;
  Sequencer& sequencer_;  // used on the home strand only
  const std::shared_ptr<const LossLedger> losses_;
};

}  // namespace switchtower
