#include "controller/schedule/op_traits.h"

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

void ForEachArray(const Op& op, absl::FunctionRef<void(ArrayId)> fn) {
  struct Visitor {
    absl::FunctionRef<void(ArrayId)> fn;
    void operator()(const LaunchOp& op) {
      for (ArrayId id : op.arguments) fn(id);
      for (ArrayId id : op.results) fn(id);
    }
    void operator()(const PutOp& op) { fn(op.array); }
    void operator()(const BindOp& op) {
      for (const BindOp::Binding& binding : op.bindings) {
        fn(binding.from);
        fn(binding.to);
      }
    }
    void operator()(const TransferOp& op) {
      fn(op.from);
      fn(op.to);
    }
    void operator()(const ReadOp& op) { fn(op.array); }
    void operator()(const ReadyOp& op) {
      for (const ReadyOp::Group& group : op.groups) {
        for (ArrayId id : group.arrays) fn(id);
      }
    }
    void operator()(const DeleteOp& op) {
      for (const DeleteOp::Group& group : op.groups) {
        for (ArrayId id : group.arrays) fn(id);
      }
    }
    void operator()(const RetainOp&) {}
    void operator()(const ReleaseOp&) {}
  };
  std::visit(Visitor{fn}, op.body);
}

std::vector<AdmissionLedger::Need> MemoryNeeds::All() const {
  std::vector<AdmissionLedger::Need> all = temporaries;
  for (const auto& [array, needs] : arrays) all.insert(all.end(), needs.begin(), needs.end());
  return all;
}

bool NeedsMemory(const Op& op) {
  return std::holds_alternative<LaunchOp>(op.body) || std::holds_alternative<PutOp>(op.body) ||
         std::holds_alternative<TransferOp>(op.body);
}

MemoryNeeds NeedsOf(const Op& op) {
  MemoryNeeds needs;
  if (const auto* launch = std::get_if<LaunchOp>(&op.body)) {
    const PlacedProgram& program = *launch->program;
    for (size_t i = 0; i < launch->results.size(); ++i) {
      auto& [array, bytes] = needs.arrays.emplace_back(launch->results[i], std::vector<AdmissionLedger::Need>());
      for (const Place& place : program.devices->places) bytes.push_back({place, program.result_bytes[i]});
    }
    for (const Place& place : program.devices->places) {
      needs.temporaries.push_back({place, program.program->info.memory.temporaries});
    }
  } else if (const auto* put = std::get_if<PutOp>(&op.body)) {
    auto& [array, bytes] = needs.arrays.emplace_back(put->array, std::vector<AdmissionLedger::Need>());
    for (const PutOp::Shard& shard : put->shards) {
      for (const Place& place : shard.places) bytes.push_back({place, PackedBytes(shard.shape)});
    }
  } else if (const auto* transfer = std::get_if<TransferOp>(&op.body)) {
    auto& [array, bytes] = needs.arrays.emplace_back(transfer->to, std::vector<AdmissionLedger::Need>());
    for (const TransferOp::Destination& destination : transfer->destinations) {
      bytes.push_back({destination.place, PackedBytes(destination.shard_shape)});
    }
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

}  // namespace switchtower
