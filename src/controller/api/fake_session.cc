#include "controller/api/fake_session.h"

#include <fmt/format.h>

#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr const char* kMemoryKinds[] = {"device", "pinned_host", "unpinned_host"};

Sharding OnDevice(DeviceId device, std::string memory_kind) {
  Sharding sharding;
  sharding.kind = Sharding::Kind::kSingleDevice;
  sharding.devices = {device};
  sharding.memory_kind = std::move(memory_kind);
  return sharding;
}

}  // namespace

FakeSession::FakeSession(SessionId id, int slices, int devices_per_slice) {
  description_.id = id;
  description_.platform_name = "cpu";
  description_.platform_version = "fake";
  description_.device_kind = "cpu";
  description_.memory_kinds.assign(std::begin(kMemoryKinds), std::end(kMemoryKinds));
  for (int i = 0; i < slices * devices_per_slice; ++i) {
    VirtualDevice device;
    device.id = DeviceId{static_cast<uint64_t>(i)};
    device.slice_index = i / devices_per_slice;
    device.task_index = device.slice_index;
    device.ordinal_on_host = i % devices_per_slice;
    device.coords = {i % devices_per_slice, 0, 0};
    device.colocation_id = i;
    description_.devices.push_back(device);
    for (int kind = 0; kind < 3; ++kind) {
      description_.memories.push_back({i * 3 + kind, kMemoryKinds[kind], kind, device.id});
    }
  }
}

void FakeSession::AddProgram(const std::string& module, CompiledProgram program) {
  programs_[module] = std::make_shared<const CompiledProgram>(std::move(program));
}

absl::StatusOr<FakeArray*> FakeSession::Find(ArrayId id) {
  auto it = arrays_.find(id);
  if (it == arrays_.end()) return absl::InvalidArgumentError(fmt::format("there is no array {}", id.value));
  if (!it->second.error.ok()) return it->second.error;
  if (it->second.deleted) return absl::InvalidArgumentError(fmt::format("array {} was deleted", id.value));
  return &it->second;
}

absl::StatusOr<std::vector<FakeArray*>> FakeSession::FindAll(absl::Span<const ArrayId> ids) {
  std::vector<FakeArray*> arrays;
  for (ArrayId id : ids) {
    ASSIGN_OR_RETURN(FakeArray * array, Find(id));
    arrays.push_back(array);
  }
  return arrays;
}

absl::Status FakeSession::CheckFree(absl::Span<const ArrayId> results) const {
  for (ArrayId id : results) {
    if (arrays_.contains(id)) return absl::InvalidArgumentError(fmt::format("array {} exists already", id.value));
  }
  return absl::OkStatus();
}

absl::Status FakeSession::BindAll(absl::Span<const ArrayId> results, absl::Status error) {
  for (ArrayId id : results) BindError(id, error);
  return error;
}

absl::Status FakeSession::Insert(ArrayId result, FakeArray array) {
  RETURN_IF_ERROR(CheckFree({result}));
  arrays_.emplace(result, std::move(array));
  return absl::OkStatus();
}

void FakeSession::BindError(ArrayId result, absl::Status error) {
  FakeArray array;
  array.error = std::move(error);
  arrays_.emplace(result, std::move(array));
}

void FakeSession::MakeErrorArray(ArrayId result, const ArraySpec& spec, absl::Status error) {
  FakeArray array = PendingArray(spec);
  array.error = std::move(error);
  arrays_.emplace(result, std::move(array));
}

absl::Status FakeSession::MakeArray(ArrayId result, const ArraySpec& spec, std::vector<HostShard> shards,
                                    uint64_t user_context) {
  ++array_calls_;
  RETURN_IF_ERROR(CheckFree({result}));
  FakeArray array = PendingArray(spec);
  for (HostShard& host : shards) {
    if (host.shard_positions.empty()) continue;
    ASSIGN_OR_RETURN(Shape shape, ShardShape(spec.sharding, spec.shape, host.shard_positions[0]));
    std::vector<std::shared_ptr<FakeShard>> targets;
    for (int32_t position : host.shard_positions) targets.push_back(array.shards.at(position));
    auto bytes = std::make_shared<std::string>();
    host.buffer->Consume([bytes](HostBuffer::Chunk chunk) { bytes->append(*chunk); },
                         [bytes, shape, targets, strides = host.byte_strides](absl::Status status) {
                           auto dense = status.ok() ? ToDense(shape, strides, *bytes) : status;
                           for (const auto& target : targets) target->Fill(dense);
                         });
  }
  return Insert(result, std::move(array));
}

absl::Status FakeSession::Assemble(ArrayId result, const ArraySpec& spec, absl::Span<const ArrayId> parts,
                                   CopySemantics semantics, uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree({result}));
  auto found = FindAll(parts);
  if (!found.ok()) return BindAll({result}, found.status());
  if (static_cast<int>(found->size()) != spec.sharding.num_shards()) {
    return BindAll({result}, absl::InvalidArgumentError("as many parts as shards are needed"));
  }
  FakeArray array;
  array.spec = spec;
  for (FakeArray* part : *found) {
    if (part->shards.size() != 1) {
      return BindAll({result}, absl::InvalidArgumentError("a part has more than one shard"));
    }
    array.shards.push_back(part->shards[0]);
  }
  if (array.spec.shape.dtype == DType::kInvalid) array.spec.shape.dtype = (*found)[0]->spec.shape.dtype;
  return Insert(result, std::move(array));
}

absl::Status FakeSession::Disassemble(ArrayId array, absl::Span<const ArrayId> results, CopySemantics semantics,
                                      uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree(results));
  auto found = Find(array);
  if (!found.ok()) return BindAll(results, found.status());
  const FakeArray whole = **found;
  if (results.size() != whole.shards.size()) {
    return BindAll(results, absl::InvalidArgumentError("as many results as shards are needed"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    auto shape = ShardShape(whole.spec.sharding, whole.spec.shape, static_cast<int>(i));
    if (!shape.ok()) return BindAll(results, shape.status());
    FakeArray part;
    part.spec = {*shape, OnDevice(whole.spec.sharding.devices[i], whole.spec.sharding.memory_kind), whole.spec.layout};
    part.shards = {whole.shards[i]};
    RETURN_IF_ERROR(Insert(results[i], std::move(part)));
  }
  return absl::OkStatus();
}

absl::Status FakeSession::FullyReplicatedShard(ArrayId array, ArrayId result, CopySemantics semantics,
                                               uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree({result}));
  auto found = Find(array);
  if (!found.ok()) return BindAll({result}, found.status());
  const FakeArray& whole = **found;
  if (!whole.spec.sharding.IsFullyReplicated() && whole.shards.size() != 1) {
    return BindAll({result}, absl::InvalidArgumentError("the array isn't fully replicated"));
  }
  FakeArray part;
  part.spec = {whole.spec.shape, OnDevice(whole.spec.sharding.devices[0], whole.spec.sharding.memory_kind),
               whole.spec.layout};
  part.shards = {whole.shards[0]};
  return Insert(result, std::move(part));
}

absl::Status FakeSession::Copy(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                               absl::Span<const DeviceId> devices, const std::optional<std::string>& memory_kind,
                               CopySemantics semantics, uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree(results));
  auto found = FindAll(arrays);
  if (!found.ok()) return BindAll(results, found.status());
  std::vector<FakeArray> copies;
  for (FakeArray* array : *found) {
    copies.push_back(*array);
    if (!devices.empty()) {
      if (devices.size() != array->shards.size()) {
        return BindAll(results, absl::InvalidArgumentError("copy needs one device for each shard"));
      }
      copies.back().spec.sharding.devices.assign(devices.begin(), devices.end());
    }
    if (memory_kind.has_value()) copies.back().spec.sharding.memory_kind = *memory_kind;
  }
  for (size_t i = 0; i < copies.size(); ++i) RETURN_IF_ERROR(Insert(results[i], std::move(copies[i])));
  return absl::OkStatus();
}

absl::Status FakeSession::Remap(absl::Span<const ArrayId> arrays, absl::Span<const ArraySpec> inputs,
                                absl::Span<const ArrayId> results, absl::Span<const ArraySpec> outputs,
                                absl::Span<const ShardMapping> mappings, CopySemantics semantics,
                                uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree(results));
  auto found = FindAll(arrays);
  if (!found.ok()) return BindAll(results, found.status());
  std::vector<FakeArray> made;
  for (const ArraySpec& spec : outputs) made.push_back(PendingArray(spec));
  for (const ShardMapping& move : mappings) {
    if (move.from_shard >= static_cast<int>((*found)[move.in]->shards.size())) {
      return BindAll(results, absl::InvalidArgumentError("remap's input has fewer shards than its spec"));
    }
    made[move.out].shards[move.to_shard] = (*found)[move.in]->shards[move.from_shard];
  }
  for (size_t i = 0; i < made.size(); ++i) RETURN_IF_ERROR(Insert(results[i], std::move(made[i])));
  return absl::OkStatus();
}

absl::Status FakeSession::Reshard(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                                  absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree(results));
  auto found = FindAll(arrays);
  if (!found.ok()) return BindAll(results, found.status());
  for (size_t i = 0; i < found->size(); ++i) {
    const FakeArray from = *(*found)[i];
    if (from.spec.shape != outputs[i].shape) {
      return BindAll(results, absl::InvalidArgumentError("a reshard can't change the shape"));
    }
    FakeArray to = PendingArray(outputs[i]);
    WaitForAll(from.shards, [from, to](absl::Status status) {
      std::string whole;
      if (status.ok()) whole.assign(from.spec.shape.host_bytes(), '\0');
      for (size_t s = 0; s < from.shards.size() && status.ok(); ++s) {
        auto box = ShardBox(from.spec.sharding, from.spec.shape, static_cast<int>(s));
        if (!box.ok()) status = box.status();
        if (box.ok()) {
          from.shards[s]->Wait([&](const auto& part) { PasteBox(from.spec.shape, *box, *part, &whole); });
        }
      }
      for (size_t s = 0; s < to.shards.size(); ++s) {
        auto box = ShardBox(to.spec.sharding, to.spec.shape, static_cast<int>(s));
        if (status.ok() && !box.ok()) status = box.status();
        to.shards[s]->Fill(status.ok() ? absl::StatusOr<std::string>(CutBox(to.spec.shape, *box, whole)) : status);
      }
    });
    RETURN_IF_ERROR(Insert(results[i], std::move(to)));
  }
  return absl::OkStatus();
}

absl::Status FakeSession::Bitcast(absl::Span<const ArrayId> arrays, absl::Span<const ArrayId> results,
                                  absl::Span<const ArraySpec> outputs, CopySemantics semantics, uint64_t user_context) {
  RETURN_IF_ERROR(CheckFree(results));
  auto found = FindAll(arrays);
  if (!found.ok()) return BindAll(results, found.status());
  std::vector<FakeArray> made;
  for (size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i]->spec.shape.host_bytes() != outputs[i].shape.host_bytes() ||
        static_cast<int>((*found)[i]->shards.size()) != outputs[i].sharding.num_shards()) {
      return BindAll(results, absl::InvalidArgumentError("a bitcast can't change the bytes"));
    }
    made.push_back(*(*found)[i]);
    made.back().spec = outputs[i];
  }
  for (size_t i = 0; i < made.size(); ++i) RETURN_IF_ERROR(Insert(results[i], std::move(made[i])));
  return absl::OkStatus();
}

void FakeSession::WhenReady(absl::Span<const ArrayId> arrays, Callback<absl::Status> done) {
  auto found = FindAll(arrays);
  if (!found.ok()) {
    done(found.status());
    return;
  }
  std::vector<std::shared_ptr<FakeShard>> shards;
  for (FakeArray* array : *found) shards.insert(shards.end(), array->shards.begin(), array->shards.end());
  WaitForAll(std::move(shards), std::move(done));
}

void FakeSession::Read(ArrayId id, std::optional<std::vector<int64_t>> byte_strides,
                       Callback<absl::StatusOr<std::vector<HostBuffer::Chunk>>> done) {
  auto found = Find(id);
  absl::Status status = found.status();
  if (status.ok() && !(*found)->spec.sharding.IsFullyReplicated() && (*found)->shards.size() != 1) {
    status = absl::InvalidArgumentError("only an array of one shard or a fully replicated one can be read");
  }
  if (!status.ok()) {
    done(status);
    return;
  }
  (*found)->shards[0]->Wait([shape = (*found)->spec.shape, byte_strides = std::move(byte_strides),
                             done = std::move(done)](const absl::StatusOr<std::string>& dense) mutable {
    auto region = dense.ok() ? FromDense(shape, byte_strides, *dense) : dense;
    if (!region.ok()) {
      done(region.status());
      return;
    }
    done(std::vector<HostBuffer::Chunk>{std::make_shared<const std::string>(*std::move(region))});
  });
}

absl::StatusOr<ArraySpec> FakeSession::Spec(ArrayId array) {
  ASSIGN_OR_RETURN(FakeArray * found, Find(array));
  return found->spec;
}

absl::StatusOr<bool> FakeSession::IsDeleted(ArrayId array) {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return absl::InvalidArgumentError(fmt::format("there is no array {}", array.value));
  return it->second.deleted;
}

absl::Status FakeSession::Delete(absl::Span<const ArrayId> arrays) {
  absl::Status status;
  for (ArrayId id : arrays) {
    auto it = arrays_.find(id);
    if (it == arrays_.end()) {
      status.Update(absl::InvalidArgumentError(fmt::format("there is no array {}", id.value)));
      continue;
    }
    it->second.deleted = true;
    it->second.shards.clear();
  }
  return status;
}

absl::Status FakeSession::Destruct(absl::Span<const ArrayId> arrays) {
  ++array_calls_;
  absl::Status status;
  for (ArrayId id : arrays) {
    if (arrays_.erase(id) == 0) {
      status.Update(absl::InvalidArgumentError(fmt::format("there is no array {}", id.value)));
    }
  }
  return status;
}

absl::StatusOr<Layout> FakeSession::DefaultLayout(const Shape& shape, DeviceId device, const std::string& memory_kind) {
  return Layout::Default(shape.rank());
}

void FakeSession::Close(absl::Status reason) {
  closed_ = true;
  for (auto& [id, array] : arrays_) {
    for (auto& shard : array.shards) shard->Fill(reason);
  }
  arrays_.clear();
  executables_.clear();
}

void FakeController::RefuseNext(absl::Status why) {
  MutexLock lock(mutex_);
  refusals_.push_back(std::move(why));
}

void FakeController::OpenSession(const SessionRequest& request,
                                 Callback<absl::StatusOr<std::unique_ptr<Session>>> done) {
  absl::Status refusal = open_error;
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    if (!refusals_.empty()) {
      refusal = std::move(refusals_.front());
      refusals_.pop_front();
    } else if (refusal.ok()) {
      id = next_session_++;
    }
  }
  if (!refusal.ok()) {
    done(std::move(refusal));
    return;
  }
  auto session = std::make_unique<FakeSession>(SessionId{id}, slices_, devices_);
  if (on_open) on_open(*session);
  done(std::unique_ptr<Session>(std::move(session)));
}

}  // namespace switchtower
