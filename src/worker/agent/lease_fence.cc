#include "worker/agent/lease_fence.h"

#include <utility>

#include <fmt/format.h>

#include "base/net/address.h"

namespace switchtower {

void LeaseFence::SetIdentity(WorkerId worker, std::string cluster_id) {
  worker_ = worker;
  cluster_id_ = std::move(cluster_id);
}

const AllowedLease* LeaseFence::FindLease(const ControllerHello& hello) const {
  for (const AllowedLease& lease : leases_) {
    if (lease.home_epoch == hello.home_epoch && SecretsEqual(lease.secret, hello.lease_secret)) return &lease;
  }
  return nullptr;
}

LeaseFence::Decision LeaseFence::Judge(const ControllerHello& hello) const {
  auto refuse = [](std::string why) {
    return Decision{Decision::Kind::kRefuse, absl::FailedPreconditionError(std::move(why))};
  };
  if (hello.protocol_version != kWorkerProtocolVersion) {
    return refuse(fmt::format("this worker speaks protocol {} and the controller {}: install the same version on both",
                              kWorkerProtocolVersion, hello.protocol_version));
  }
  if (!worker_.has_value()) {
    return {Decision::Kind::kWait, absl::UnavailableError("this worker has not registered yet")};
  }
  if (hello.cluster_id != cluster_id_) return refuse("this worker belongs to another cluster");
  if (hello.worker != *worker_) return refuse("another worker runs at this address now");
  if (hello.home_epoch < newest_epoch_) {
    return refuse(
        fmt::format("a controller of epoch {} has taken over from epoch {}", newest_epoch_, hello.home_epoch));
  }
  if (FindLease(hello) == nullptr) {
    return {Decision::Kind::kWait, absl::UnauthenticatedError("no lease on this worker has that secret and epoch")};
  }
  return {Decision::Kind::kAdmit, absl::OkStatus()};
}

}  // namespace switchtower
