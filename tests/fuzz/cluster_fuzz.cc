// What workers and proxies say to the resource manager: descriptions of workers, wishes for slices; and the leases that
// it tells proxies of.
//
// A slice is in at most one lease (I-3), a place of a slice holds one worker, and what is decoded encodes to the same.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "fuzz_inputs.pb.h"
#include "resource_manager/cluster_proto.h"
#include "resource_manager/cluster_table.h"
#include "tests/fuzz/proto_target.h"

namespace switchtower::fuzz {
namespace {

class Cluster {
 public:
  explicit Cluster(ClusterOptions options)
      : table_(
            std::move(options), [this] { return random_ += 2; }, 7) {}

  void Take(const ClusterInput::Step& step) {
    switch (step.step_case()) {
      case ClusterInput::Step::kJoin:
        if (const auto worker = Decode(step.join()); worker.ok()) Join(step.slice(), *worker);
        break;
      case ClusterInput::Step::kAcquire:
        Acquire(step.acquire());
        break;
      case ClusterInput::Step::kRelease:
        if (leases_.empty()) break;
        table_.Release(leases_[step.release() % leases_.size()]);
        break;
      case ClusterInput::Step::kLeave:
        if (const auto workers = table_.Workers(); !workers.empty()) {
          table_.Remove(workers[step.leave() % workers.size()]);
        }
        break;
      case ClusterInput::Step::kLease:
        if (const auto lease = Decode(step.lease()); lease.ok()) {
          LeaseStateProto written;
          Encode(*lease, &written);
          CHECK(Decode(written).ok());
        }
        break;
      case ClusterInput::Step::STEP_NOT_SET:
        break;
    }
    CheckLeases();
  }

 private:
  void Join(const std::string& slice, const WorkerInfo& worker) {
    Registration registration;
    registration.slice = slice;
    registration.host_index = worker.host_index;
    registration.worker = worker;
    const auto joined = table_.Register(registration);
    if (!joined.ok()) return;
    CHECK(joined->host_index >= 0 && !joined->slice.empty());
    WorkerProto written;
    Encode(*joined, &written);
    CHECK(Decode(written).ok());
  }
  void Acquire(const std::string& words) {
    LeaseRequest request;
    if (!words.empty()) {
      const auto types = ParseSliceTypes(words);
      if (!types.ok()) return;
      for (const std::string& type : *types) request.slices.push_back({type});
    }
    if (const auto lease = table_.Acquire(request); lease.ok()) leases_.push_back(*lease);
  }
  void CheckLeases() {
    std::set<int32_t> leased;
    for (LeaseId id : leases_) {
      const auto state = table_.State(id);
      if (!state.ok()) continue;  // released
      for (const SliceInfo& slice : state->slices) CHECK(leased.insert(slice.number).second);
    }
    table_.TakeChanged();
    for (WorkerId worker : table_.Workers()) CHECK(table_.GrantsOf(worker).size() <= 1);
  }

  uint64_t random_ = 1000;
  ClusterTable table_;
  std::vector<LeaseId> leases_;
};

void Run(const ClusterInput& input) {
  ClusterOptions options{input.instance_count() % 8, input.instance_type()};
  if (!ClusterTable::Validate(options).ok()) return;
  Cluster cluster(std::move(options));
  for (const ClusterInput::Step& step : input.steps()) cluster.Take(step);
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::ClusterInput, switchtower::fuzz::Run)
