#include "controller/schedule/op_traits.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

namespace switchtower {

void ForEachSeatList(const Op& op, absl::FunctionRef<void(const std::vector<int32_t>&)> fn) {
  struct Visitor {
    absl::FunctionRef<void(const std::vector<int32_t>&)> fn;
    void operator()(const LaunchOp& op) { fn(op.program->devices->seats); }
    void operator()(const PutOp& op) { fn(op.devices->seats); }
    void operator()(const BindOp& op) { fn(op.devices->seats); }
    void operator()(const TransferOp& op) {
      fn(op.source_seats);
      fn(op.destination_devices->seats);
    }
    void operator()(const ReadOp& op) { fn({op.place.seat}); }
    void operator()(const ReadyOp& op) {
      for (const ReadyOp::Group& group : op.groups) fn(group.devices->seats);
    }
    void operator()(const DeleteOp&) {}
    void operator()(const RetainOp&) {}
    void operator()(const ReleaseOp&) {}
  };
  std::visit(Visitor{fn}, op.body);
}

void ForEachUse(const Op& op, absl::FunctionRef<void(Resource, bool writes)> fn) {
  constexpr bool kReads = false, kWrites = true;
  struct Visitor {
    absl::FunctionRef<void(Resource, bool writes)> fn;
    void operator()(const LaunchOp& op) {
      fn(Resource::Of(op.program), kReads);
      for (ArrayId id : op.arguments) fn(Resource::Of(id), kReads);
      for (uint32_t index : op.donated) fn(Resource::Of(op.arguments[index]), kWrites);
      for (ArrayId id : op.results) fn(Resource::Of(id), kWrites);
    }
    void operator()(const PutOp& op) { fn(Resource::Of(op.array), kWrites); }
    void operator()(const BindOp& op) {
      for (const BindOp::Binding& binding : op.bindings) {
        fn(Resource::Of(binding.from), kReads);
        fn(Resource::Of(binding.to), kWrites);
      }
    }
    void operator()(const TransferOp& op) {
      fn(Resource::Of(op.from), kReads);
      fn(Resource::Of(op.to), kWrites);
    }
    void operator()(const ReadOp& op) { fn(Resource::Of(op.array), kReads); }
    void operator()(const ReadyOp& op) {
      for (const ReadyOp::Group& group : op.groups) {
        for (ArrayId id : group.arrays) fn(Resource::Of(id), kReads);
      }
    }
    void operator()(const DeleteOp& op) {
      for (const DeleteOp::Group& group : op.groups) {
        for (ArrayId id : group.arrays) fn(Resource::Of(id), kWrites);
      }
    }
    void operator()(const RetainOp& op) { fn(Resource::Of(op.program), kWrites); }
    void operator()(const ReleaseOp& op) { fn(Resource::Of(op.program), kWrites); }
  };
  std::visit(Visitor{fn}, op.body);
}

std::vector<AdmissionLedger::Need> MemoryNeeds::All() const {
  std::vector<AdmissionLedger::Need> all = temporaries;
  for (const auto& [array, needs] : arrays) all.insert(all.end(), needs.begin(), needs.end());
  return all;
}

namespace {

struct ShardNeed {
  Place place;
  int64_t bytes = 0;
};

// One need for all where the shards, of an array on `devices`, are of one size.
std::vector<AdmissionLedger::Need> NeedsOfShards(const DeviceListPtr& devices, const std::vector<ShardNeed>& shards) {
  const bool alike = shards.size() == devices->places.size() &&
                     std::all_of(shards.begin(), shards.end(),
                                 [&](const ShardNeed& shard) { return shard.bytes == shards.front().bytes; });
  if (alike && !shards.empty()) return {{devices, shards.front().bytes}};
  std::vector<AdmissionLedger::Need> needs;
  for (const ShardNeed& shard : shards) needs.push_back({DeviceList::Make({shard.place}), shard.bytes});
  return needs;
}

}  // namespace

bool NeedsMemory(const Op& op) {
  return std::holds_alternative<LaunchOp>(op.body) || std::holds_alternative<PutOp>(op.body) ||
         std::holds_alternative<TransferOp>(op.body);
}

MemoryNeeds NeedsOf(const Op& op) {
  MemoryNeeds needs;
  if (const auto* launch = std::get_if<LaunchOp>(&op.body)) {
    const PlacedProgram& program = *launch->program;
    for (size_t i = 0; i < launch->results.size(); ++i) {
      needs.arrays.push_back({launch->results[i], {{program.devices, program.result_bytes[i]}}});
    }
    needs.temporaries.push_back({program.devices, program.program->info.memory.temporaries});
  } else if (const auto* put = std::get_if<PutOp>(&op.body)) {
    std::vector<ShardNeed> shards;
    for (const PutOp::Shard& shard : put->shards) {
      for (const Place& place : shard.places) shards.push_back({place, PackedBytes(shard.shape)});
    }
    needs.arrays.push_back({put->array, NeedsOfShards(put->devices, shards)});
  } else if (const auto* transfer = std::get_if<TransferOp>(&op.body)) {
    std::vector<ShardNeed> shards;
    for (const TransferOp::Destination& destination : transfer->destinations) {
      shards.push_back({destination.place, PackedBytes(destination.shard_shape)});
    }
    needs.arrays.push_back({transfer->to, NeedsOfShards(transfer->destination_devices, shards)});
  }
  return needs;
}

std::string Describe(const Op& op) {
  struct Visitor {
    std::string operator()(const LaunchOp& op) { return "launch of " + op.program->program->info.name; }
    std::string operator()(const PutOp& op) { return fmt::format("array {} from the host", op.array.value); }
    std::string operator()(const BindOp&) { return "a new name of arrays"; }
    std::string operator()(const TransferOp& op) { return fmt::format("copy of array {}", op.from.value); }
    std::string operator()(const ReadOp& op) { return fmt::format("read of array {}", op.array.value); }
    std::string operator()(const ReadyOp&) { return "wait for arrays"; }
    std::string operator()(const DeleteOp&) { return "delete"; }
    std::string operator()(const RetainOp&) { return "load of a program"; }
    std::string operator()(const ReleaseOp&) { return "unload of a program"; }
  };
  return std::visit(Visitor{}, op.body);
}

const DeviceList* TakesRoomOn(const Op& op) {
  if (const auto* launch = std::get_if<LaunchOp>(&op.body)) return launch->program->devices.get();
  if (const auto* put = std::get_if<PutOp>(&op.body)) return put->devices.get();
  if (const auto* transfer = std::get_if<TransferOp>(&op.body)) return transfer->destination_devices.get();
  return nullptr;
}

}  // namespace switchtower
