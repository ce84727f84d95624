// A resource manager in memory, for tests: slices and workers are what the test says.
//
// Threads:  any; watches are called on the thread that makes the change.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/mutex.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

class FakeResourceManager : public ResourceManagerApi {
 public:
  // `slices` slices s0, s1, ... of type "cpu:HxD", declared but without workers.
  FakeResourceManager(int slices, int hosts, int devices_per_host) {
    for (int s = 0; s < slices; ++s) {
      SliceInfo slice;
      slice.name = fmt::format("s{}", s);
      slice.number = s;
      slice.type = fmt::format("cpu:{}x{}", hosts, devices_per_host);
      slice.num_hosts = hosts;
      slice.devices_per_host = devices_per_host;
      slices_.push_back(std::move(slice));
    }
  }

  // A worker takes its host's place, in the stead of the one that may be there. Returns its id.
  WorkerId AddWorker(int slice, int host, const DeviceType& type, std::vector<std::string> command_addresses = {})
      EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    WorkerInfo worker;
    worker.id = WorkerId{++last_worker_};
    worker.slice = slices_[slice].name;
    worker.slice_number = slice;
    worker.host_index = host;
    worker.num_devices = slices_[slice].devices_per_host;
    worker.device_type = type;
    worker.host_id = "in-process";
    worker.command_addresses = std::move(command_addresses);
    worker.data_addresses = {"in-process"};
    RemoveLocked(slice, host);
    slices_[slice].workers.push_back(worker);
    Notify();
    return worker.id;
  }
  void RemoveWorker(int slice, int host) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    RemoveLocked(slice, host);
    Notify();
  }

  absl::StatusOr<std::vector<SliceInfo>> Slices() override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return slices_;
  }
  absl::StatusOr<LeaseId> Acquire(const LeaseRequest& request, Watch on_change) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Lease lease;
    lease.exclusive = !request.slices.empty();
    for (const SliceRequest& wanted : request.slices) {
      int found = -1;
      bool known = false;
      for (size_t s = 0; s < slices_.size(); ++s) {
        if (slices_[s].type != wanted.type) continue;
        known = true;
        if (found < 0 && !Held(static_cast<int>(s), lease)) found = static_cast<int>(s);
      }
      if (!known) return absl::InvalidArgumentError("no declared slice has type " + wanted.type);
      if (found < 0) return absl::ResourceExhaustedError("all slices of type " + wanted.type + " are leased");
      lease.slices.push_back(found);
    }
    lease.watch = std::make_shared<Watch>(std::move(on_change));
    const LeaseId id = ++last_lease_;
    (*lease.watch)(StateOf(id, lease));
    leases_.emplace(id, std::move(lease));
    return id;
  }
  void Release(LeaseId lease) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    leases_.erase(lease);
  }
  void ReportUnreachable(WorkerId worker) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    unreachable_.push_back(worker);
  }

  size_t leases() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return leases_.size();
  }
  std::vector<WorkerId> unreachable() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return unreachable_;
  }

 private:
  struct Lease {
    bool exclusive = false;
    std::vector<int> slices;  // exclusive ones
    std::shared_ptr<Watch> watch;
  };
  bool Held(int slice, const Lease& with) const REQUIRES(mutex_) {
    const auto in = [&](const Lease& lease) {
      return std::find(lease.slices.begin(), lease.slices.end(), slice) != lease.slices.end();
    };
    if (in(with)) return true;
    for (const auto& [id, lease] : leases_) {
      if (in(lease)) return true;
    }
    return false;
  }
  void RemoveLocked(int slice, int host) REQUIRES(mutex_) {
    std::erase_if(slices_[slice].workers, [&](const WorkerInfo& info) { return info.host_index == host; });
  }
  LeaseState StateOf(LeaseId id, const Lease& lease) const REQUIRES(mutex_) {
    LeaseState state;
    state.id = id;
    state.exclusive = lease.exclusive;
    state.version = version_;
    state.home_epoch = 7;
    state.secret = "secret";
    for (int slice : lease.slices) state.slices.push_back(slices_[slice]);
    for (size_t s = 0; !lease.exclusive && s < slices_.size(); ++s) {
      if (!Held(static_cast<int>(s), lease)) state.slices.push_back(slices_[s]);
    }
    return state;
  }
  void Notify() REQUIRES(mutex_) {
    ++version_;
    for (auto& [id, lease] : leases_) (*lease.watch)(StateOf(id, lease));
  }

  mutable Mutex mutex_;
  std::vector<SliceInfo> slices_ GUARDED_BY(mutex_);
  std::map<LeaseId, Lease> leases_ GUARDED_BY(mutex_);
  std::vector<WorkerId> unreachable_ GUARDED_BY(mutex_);
  uint64_t last_worker_ GUARDED_BY(mutex_) = 100;
  LeaseId last_lease_ GUARDED_BY(mutex_) = 0;
  uint64_t version_ GUARDED_BY(mutex_) = 1;
};

}  // namespace switchtower
