#include "controller/graph/value_requests.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "controller/graph/put_requests.h"

namespace switchtower {

void WhenArraysReady(SessionContext& session, absl::Span<const ArrayId> arrays, Callback<absl::Status> done) {
  const LossLedger::Stamp stamp = session.now();
  ReadyOp ready;
  absl::flat_hash_map<const DeviceList*, size_t> groups;
  uint64_t user_context = 0;
  std::optional<uint64_t> maker;
  for (ArrayId id : arrays) {
    absl::StatusOr<LogicalArray*> array = session.arrays.Live(id);
    if (!array.ok()) {
      done(array.status());
      return;
    }
    const DeviceListPtr& devices = (*array)->info->devices;
    auto [it, added] = groups.try_emplace(devices.get(), ready.groups.size());
    if (added) ready.groups.push_back({devices, {}});
    ready.groups[it->second].arrays.push_back(id);
    if (!maker.has_value()) maker = (*array)->launch;
    if (*maker != (*array)->launch) maker = 0;
    if (user_context == 0) user_context = (*array)->user_context;
  }
  if (ready.groups.empty()) {
    done(absl::OkStatus());
    return;
  }
  ready.launch = *maker;
  // Errors of workers that no launch is known for: the best guess is the request that made the first array.
  ready.done = [user_context, flow = session.flow, done = std::move(done)](absl::Status status) mutable {
    flow->Answered();
    done(WithUserContext(std::move(status), user_context));
  };
  session.flow->Asked();
  session.Submit(std::move(ready), stamp, user_context);
}

void ReadArray(SessionContext& session, ArrayId id, std::optional<std::vector<int64_t>> byte_strides,
               Callback<absl::StatusOr<std::vector<HostBuffer::Chunk>>> done) {
  const LossLedger::Stamp stamp = session.now();
  const auto start = [&]() -> absl::Status {
    const LogicalArray* known = session.arrays.Find(id);
    int position = 0;
    std::vector<int32_t> seats;
    if (known != nullptr && known->info != nullptr) {
      const Sharding& sharding = known->info->spec.sharding;
      if (sharding.kind == Sharding::Kind::kMaximal) position = static_cast<int>(sharding.tile_devices[0]);
      seats = {known->info->devices->places[position].seat};
    }
    ASSIGN_OR_RETURN(LogicalArray * array, session.arrays.LiveOn(id, seats));
    const ArrayInfo& info = *array->info;
    const Sharding& sharding = info.spec.sharding;
    if (sharding.num_shards() > 1 && !sharding.IsFullyReplicated() && sharding.kind != Sharding::Kind::kMaximal) {
      return absl::InvalidArgumentError(fmt::format("an array of {} shards ({}) can't be read as one",
                                                    sharding.num_shards(), info.spec.shape.ToString()));
    }
    if (byte_strides.has_value()) {
      ASSIGN_OR_RETURN(const int64_t bytes, HostBufferBytes(info.spec.shape, byte_strides));
      // Gaps between elements cost memory here too: a stride can't ask for more than the array is worth.
      if (bytes / 4 - 1024 > info.spec.shape.host_bytes()) {
        return absl::InvalidArgumentError(
            fmt::format("byte strides spread {} over {} bytes", info.spec.shape.ToString(), bytes));
      }
    }
    auto chunks = std::make_shared<std::vector<HostBuffer::Chunk>>();
    const uint64_t user_context = array->user_context;
    ReadOp read{id, info.devices->places[position], std::move(byte_strides),
                [chunks](HostBuffer::Chunk chunk) { chunks->push_back(std::move(chunk)); },
                [chunks, user_context, flow = session.flow, done = std::move(done)](absl::Status status) mutable {
                  flow->Answered();
                  if (status.ok()) {
                    done(std::move(*chunks));
                  } else {
                    done(WithUserContext(std::move(status), user_context));
                  }
                }};
    session.flow->Asked();
    session.Submit(std::move(read), stamp, user_context);
    return absl::OkStatus();
  };
  absl::Status status = start();
  if (!status.ok()) done(std::move(status));
}

absl::StatusOr<bool> IsArrayDeleted(SessionContext& session, ArrayId id) {
  const LogicalArray* array = session.arrays.Find(id);
  if (array == nullptr) {
    return absl::InvalidArgumentError(fmt::format("array handle {} isn't known", id.value));
  }
  return array->deleted;
}

absl::Status DeleteArrayBuffers(SessionContext& session, absl::Span<const ArrayId> arrays, bool forget) {
  absl::Status first;
  DeleteOp remove;
  for (ArrayId id : arrays) {
    LogicalArray* array = session.arrays.Find(id);
    if (array == nullptr) {
      if (first.ok()) {
        first = absl::InvalidArgumentError(fmt::format("array handle {} isn't known", id.value));
      }
      continue;
    }
    if (array->on_workers) {
      array->on_workers = false;
      // Neighbours mostly lie alike: then one command does for all of them.
      const DeviceListPtr& devices = array->info->devices;
      if (remove.groups.empty() || remove.groups.back().devices != devices ||
          remove.groups.back().stamp != array->stamp) {
        remove.groups.push_back({devices, array->stamp, {}});
      }
      remove.groups.back().arrays.push_back(id);
    }
    if (forget) {
      session.arrays.Erase(id);
    } else if (!array->deleted) {
      session.arrays.MarkDeleted(*array, "deleted");
    }
  }
  if (!remove.groups.empty()) session.Submit(std::move(remove), session.now(), 0);
  return first;
}

}  // namespace switchtower
