// Gangs: lists of devices in rank order as the workers know them. Launches name them by number, so that a
// launch's size doesn't depend on the number of its devices.
//
// Place:    controller/schedule.
// Threads:  the home strand.
// Invariants: G-1 a gang names one incarnation of each worker; after a change a new one is defined before the
//           next launch. G-2 a GangId is never used again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/cluster/cluster_view.h"
#include "controller/cluster/place.h"
#include "types/ids.h"

namespace switchtower {

struct Gang {
  GangId id;
  std::vector<WorkerLinkPtr> links;  // each once, by seat
};
using GangPtr = std::shared_ptr<const Gang>;

// `links` by seat. What a worker says counts only for what it was asked or told to do.
bool Includes(const std::vector<WorkerLinkPtr>& links, const WorkerLink& link);

class GangDirectory {
 public:
  explicit GangDirectory(ClusterView& view) : view_(view) {}

  // For lists whose seats are all up.
  const GangPtr& For(const DeviceListPtr& devices);
  // Drops the gangs of lists that nobody else uses any more.
  void Sweep();
  size_t size() const { return gangs_.size(); }

 private:
  struct Entry {
    DeviceListPtr devices;
    GangPtr gang;
    uint64_t binding_version = 0;
  };
  bool Matches(const Entry& entry) const;
  static void Drop(const Gang& gang);

  ClusterView& view_;
  absl::flat_hash_map<const DeviceList*, Entry> gangs_;
  uint64_t next_id_ = 1;
};

}  // namespace switchtower
