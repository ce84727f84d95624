#include "resource_manager/cluster_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr int32_t kMaxHosts = 1 << 16;
constexpr int32_t kMaxDevices = 1 << 16;

}  // namespace

absl::StatusOr<SliceType> SliceType::Parse(const std::string& text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(fmt::format(
        "slice type \"{}\" isn't of the form PLATFORM:HOSTSxDEVICES, as in cpu:2x4 (2 hosts of 4 devices)", text));
  };
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) return bad();
  SliceType type{text.substr(0, colon), 1, 0};
  std::vector<int64_t> numbers;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text.substr(colon + 1), 'x'))) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1 || number > kMaxDevices) return bad();
    numbers.push_back(number);
  }
  if (numbers.size() > 4) return bad();
  type.devices_per_host = static_cast<int32_t>(numbers.back());
  int64_t hosts = 1;
  for (size_t i = 0; i + 1 < numbers.size(); ++i) hosts *= numbers[i];
  if (hosts > kMaxHosts) return bad();
  type.hosts = static_cast<int32_t>(hosts);
  return type;
}

std::string SliceType::ToString() const { return fmt::format("{}:{}x{}", platform, hosts, devices_per_host); }

absl::StatusOr<std::vector<std::string>> ParseSliceTypes(const std::string& text) {
  std::vector<std::string> types;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ',', absl::SkipWhitespace()))) {
    ASSIGN_OR_RETURN(SliceType type, SliceType::Parse(part));
    types.push_back(type.ToString());
  }
  return types;
}

ClusterTable::ClusterTable(ClusterOptions options, std::function<uint64_t()> random, uint64_t epoch_floor)
    : options_(std::move(options)), random_(std::move(random)), last_epoch_(epoch_floor) {
  if (options_.instance_count == 0) return;
  const SliceType type = SliceType::Parse(options_.instance_type).value();
  for (int32_t i = 0; i < options_.instance_count; ++i) {
    slices_[i] = Slice{fmt::format("slice{}", i), i, type.hosts, type.devices_per_host, type.platform};
  }
}

absl::Status ClusterTable::Validate(const ClusterOptions& options) {
  if (options.instance_count < 0 || options.instance_count > kMaxHosts) {
    return absl::InvalidArgumentError(
        fmt::format("--instance_count {} is out of range, 0 to {}", options.instance_count, kMaxHosts));
  }
  if (options.instance_count == 0) return absl::OkStatus();
  return SliceType::Parse(options.instance_type).status();
}

absl::StatusOr<ClusterTable::Slice*> ClusterTable::PlaceFor(const Registration& registration) {
  for (auto& [number, slice] : slices_) {
    if (!registration.slice.empty() && slice.name != registration.slice) continue;
    if (!registration.slice.empty()) return &slice;
    if (static_cast<int32_t>(slice.workers.size()) < slice.num_hosts) return &slice;
  }
  if (options_.instance_count > 0) {
    return absl::FailedPreconditionError(
        registration.slice.empty()
            ? fmt::format("all {} declared slices of type {} have their hosts; raise --instance_count of the "
                          "resource manager to add more",
                          options_.instance_count, options_.instance_type)
            : fmt::format("no slice is named {}; the declared ones are slice0 to slice{}", registration.slice,
                          options_.instance_count - 1));
  }
  if (registration.slice.empty() || registration.host_index < 0) {
    return absl::InvalidArgumentError(
        "the resource manager was started without --instance_count and --instance_type, so each worker must say "
        "where it is with --slice and --host-index");
  }
  const int32_t number = slices_.empty() ? 0 : slices_.rbegin()->first + 1;
  Slice slice{registration.slice, number, 0, registration.worker.num_devices, registration.worker.device_type.platform};
  return &(slices_[number] = std::move(slice));
}

absl::Status ClusterTable::CheckFits(const Slice& slice, const WorkerInfo& worker) const {
  if (worker.num_devices != slice.devices_per_host) {
    return absl::FailedPreconditionError(fmt::format("the worker has {} devices, the hosts of {} have {}",
                                                     worker.num_devices, slice.name, slice.devices_per_host));
  }
  if (slice.platform != kAnyPlatform && worker.device_type.platform != slice.platform) {
    return absl::FailedPreconditionError(fmt::format("the worker's devices are of platform \"{}\", {} is of \"{}\"",
                                                     worker.device_type.platform, slice.name, slice.platform));
  }
  for (const auto& [index, other] : slice.workers) {
    if (other.device_type == worker.device_type) continue;
    if (other.device_type.device_kind != worker.device_type.device_kind) {
      return absl::FailedPreconditionError(fmt::format("the worker's devices are \"{}\", those of {} are \"{}\"",
                                                       worker.device_type.device_kind, slice.name,
                                                       other.device_type.device_kind));
    }
    return absl::FailedPreconditionError(fmt::format(
        "the worker's CPU features or plug-in differ from those of {} (\"{}\" and \"{}\"); programs compiled for one "
        "can't run on the other: put hosts of one kind into a slice",
        slice.name, worker.device_type.instruction_set, other.device_type.instruction_set));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerInfo> ClusterTable::Register(const Registration& registration) {
  if (registration.worker.num_devices < 1 || registration.worker.num_devices > kMaxDevices) {
    return absl::InvalidArgumentError(
        fmt::format("a worker of {} devices can't join", registration.worker.num_devices));
  }
  if (registration.worker.command_addresses.empty()) {
    return absl::InvalidArgumentError("the worker names no address for commands");
  }
  if (registration.host_index >= kMaxHosts) {
    return absl::InvalidArgumentError(fmt::format("--host-index {} is out of range", registration.host_index));
  }
  ASSIGN_OR_RETURN(Slice * slice, PlaceFor(registration));
  RETURN_IF_ERROR(CheckFits(*slice, registration.worker));
  int32_t host = registration.host_index;
  if (host < 0) {
    host = 0;
    while (slice->workers.count(host) > 0) ++host;
  }
  const bool declared = options_.instance_count > 0;
  if (declared && host >= slice->num_hosts) {
    if (registration.host_index < 0) {
      return absl::FailedPreconditionError(fmt::format(
          "{} has all of its {} hosts; leave out --slice to join any slice with room", slice->name, slice->num_hosts));
    }
    return absl::FailedPreconditionError(
        fmt::format("--host-index {} is out of range: {} has {} hosts", host, slice->name, slice->num_hosts));
  }
  if (slice->workers.count(host) > 0) {
    return absl::AlreadyExistsError(fmt::format("host {} of {} is taken by a worker that is alive", host, slice->name));
  }
  if (!declared) slice->num_hosts = std::max(slice->num_hosts, host + 1);
  if (slice->platform == kAnyPlatform) slice->platform = registration.worker.device_type.platform;
  WorkerInfo worker = registration.worker;
  worker.id = WorkerId{random_() | 1};  // never 0
  worker.slice = slice->name;
  worker.slice_number = slice->number;
  worker.host_index = host;
  slice->workers[host] = worker;
  Changed(*slice);
  return worker;
}

void ClusterTable::Remove(WorkerId worker) {
  for (auto& [number, slice] : slices_) {
    for (auto& [host, info] : slice.workers) {
      if (info.id != worker) continue;
      slice.workers.erase(host);
      Changed(slice);
      return;
    }
  }
}

absl::StatusOr<std::vector<int32_t>> ClusterTable::ChooseExclusive(const LeaseRequest& request) const {
  std::vector<int32_t> chosen;
  for (const SliceRequest& wanted : request.slices) {
    ASSIGN_OR_RETURN(SliceType type, SliceType::Parse(wanted.type));
    int matching = 0, shared = 0;
    std::optional<int32_t> best;
    for (const auto& [number, slice] : slices_) {
      if (Describe(slice).type != type.ToString()) continue;
      ++matching;
      shared += slice.shared ? 1 : 0;
      if (slice.holder || std::count(chosen.begin(), chosen.end(), number) > 0) continue;
      // A whole slice serves at once; one that is still being provisioned will do.
      const bool whole = static_cast<int32_t>(slice.workers.size()) == slice.num_hosts;
      if (!best || (whole && static_cast<int32_t>(slices_.at(*best).workers.size()) != slices_.at(*best).num_hosts)) {
        best = number;
      }
    }
    if (matching == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "this cluster has no slice of type {}; ask for one that `switchtower` was started with", type.ToString()));
    }
    if (!best) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} slices of type {} were asked for; the cluster has {}, of which {} are shared by open sessions and the "
          "others are leased: close a session or ask for fewer",
          request.slices.size(), type.ToString(), matching, shared));
    }
    chosen.push_back(*best);
  }
  return chosen;
}

absl::StatusOr<std::vector<int32_t>> ClusterTable::ChooseShared() const {
  if (const std::optional<LeaseId> shared = SharedLease()) {
    return absl::FailedPreconditionError(
        fmt::format("the shared slices have their home at {}; connect there, or start this proxy with --virtual_slices",
                    leases_.at(*shared).owner));
  }
  std::vector<int32_t> chosen;
  for (const auto& [number, slice] : slices_) {
    if (!slice.holder) chosen.push_back(number);
  }
  if (chosen.empty()) {
    return slices_.empty() ? absl::ResourceExhaustedError(
                                 "no worker has registered yet and no slices were declared; start workers, or the "
                                 "resource manager with --instance_count and --instance_type")
                           : absl::ResourceExhaustedError("every slice is leased exclusively; wait for one to be free");
  }
  return chosen;
}

absl::StatusOr<LeaseId> ClusterTable::Acquire(const LeaseRequest& request) {
  const bool exclusive = !request.slices.empty();
  auto chosen = exclusive ? ChooseExclusive(request) : ChooseShared();
  RETURN_IF_ERROR(chosen.status());
  const LeaseId id = random_() | 1;
  Lease lease;
  lease.state.id = id;
  lease.state.exclusive = exclusive;
  lease.state.home_epoch = ++last_epoch_;
  lease.state.secret = fmt::format("{:016x}{:016x}", random_(), random_());
  lease.slice_numbers = *chosen;
  lease.owner = request.owner;
  for (int32_t number : *chosen) {
    slices_[number].holder = id;
    slices_[number].shared = !exclusive;
  }
  leases_[id] = std::move(lease);
  changed_.push_back(id);
  return id;
}

void ClusterTable::Release(LeaseId lease) {
  if (leases_.erase(lease) == 0) return;
  for (auto& [number, slice] : slices_) {
    if (slice.holder != lease) continue;
    slice.holder.reset();
    slice.shared = false;
  }
}

std::optional<LeaseId> ClusterTable::SharedLease() const {
  for (const auto& [id, lease] : leases_) {
    if (!lease.state.exclusive) return id;
  }
  return std::nullopt;
}

std::optional<LeaseId> ClusterTable::HolderOf(const SliceInfo& slice) const {
  auto it = slices_.find(slice.number);
  return it == slices_.end() ? std::nullopt : it->second.holder;
}

void ClusterTable::Changed(const Slice& slice) {
  if (!slice.holder) return;
  leases_.at(*slice.holder).state.version++;
  changed_.push_back(*slice.holder);
}

SliceInfo ClusterTable::Describe(const Slice& slice) const {
  SliceInfo info;
  info.name = slice.name;
  info.number = slice.number;
  info.num_hosts = slice.num_hosts;
  info.devices_per_host = slice.devices_per_host;
  info.type = SliceType{slice.platform, slice.num_hosts, slice.devices_per_host}.ToString();
  for (const auto& [host, worker] : slice.workers) info.workers.push_back(worker);
  return info;
}

std::vector<SliceInfo> ClusterTable::Slices() const {
  std::vector<SliceInfo> slices;
  for (const auto& [number, slice] : slices_) slices.push_back(Describe(slice));
  return slices;
}

absl::StatusOr<LeaseState> ClusterTable::State(LeaseId lease) const {
  auto it = leases_.find(lease);
  if (it == leases_.end()) return absl::NotFoundError("the lease was released");
  LeaseState state = it->second.state;
  for (int32_t number : it->second.slice_numbers) state.slices.push_back(Describe(slices_.at(number)));
  return state;
}

std::vector<LeaseId> ClusterTable::TakeChanged() {
  std::vector<LeaseId> changed;
  changed.swap(changed_);
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  return changed;
}

std::vector<LeaseState> ClusterTable::GrantsOf(WorkerId worker) const {
  for (const auto& [number, slice] : slices_) {
    for (const auto& [host, info] : slice.workers) {
      if (info.id != worker || !slice.holder) continue;
      return {leases_.at(*slice.holder).state};
    }
  }
  return {};
}

std::vector<WorkerId> ClusterTable::Workers() const {
  std::vector<WorkerId> workers;
  for (const auto& [number, slice] : slices_) {
    for (const auto& [host, info] : slice.workers) workers.push_back(info.id);
  }
  return workers;
}

}  // namespace switchtower
