#include "worker/store/buffer_store.h"

#include <fmt/format.h>

namespace switchtower {

BufferStore::BufferStore() : usage_(std::make_shared<StoreUsage>()) {}

BufferStore::~BufferStore() { Clear(); }

const std::shared_ptr<StoreUsage>& BufferStore::DeviceUsage(int32_t ordinal) const {
  std::shared_ptr<StoreUsage>& usage = device_usage_[ordinal];
  if (usage == nullptr) usage = std::make_shared<StoreUsage>(usage_);
  return usage;
}

const BufferStore::Slots* BufferStore::FindSlots(const ArrayKey& key) const {
  auto session = sessions_.find(key.session);
  if (session == sessions_.end()) return nullptr;
  auto array = session->second.find(key.array);
  return array == session->second.end() ? nullptr : &array->second;
}

void BufferStore::Name(const ArrayKey& key, int32_t ordinal, BufferEntryPtr entry) {
  ++entry->names;
  Slots& slots = sessions_[key.session][key.array];
  for (Slot& slot : slots) {
    if (slot.ordinal == ordinal) {
      --slot.entry->names;
      slot.entry = std::move(entry);
      return;
    }
  }
  slots.push_back(Slot{ordinal, std::move(entry)});
}

BufferEntryPtr BufferStore::Promise(const ArrayKey& key, int32_t ordinal) {
  auto entry = std::make_shared<BufferEntry>(DeviceUsage(ordinal));
  Name(key, ordinal, entry);
  return entry;
}

BufferEntryPtr BufferStore::Find(const ArrayKey& key, int32_t ordinal) const {
  if (const Slots* slots = FindSlots(key)) {
    for (const Slot& slot : *slots) {
      if (slot.ordinal == ordinal) return slot.entry;
    }
  }
  auto entry = std::make_shared<BufferEntry>(DeviceUsage(ordinal));
  entry->Fail(absl::InvalidArgumentError(fmt::format(
      "array {} has no shard on device {} of its worker: it was deleted or never made", key.array.value, ordinal)));
  return entry;
}

void BufferStore::Bind(const ArrayKey& from, const ArrayKey& to, int32_t ordinal) {
  if (from == to) return;
  Name(to, ordinal, Find(from, ordinal));
}

void BufferStore::ReplaceByError(const ArrayKey& key, int32_t ordinal, absl::Status error) {
  Promise(key, ordinal)->Fail(std::move(error));
}

void BufferStore::Unname(Slots& slots) {
  for (Slot& slot : slots) --slot.entry->names;
}

void BufferStore::Erase(const ArrayKey& key) {
  auto session = sessions_.find(key.session);
  if (session == sessions_.end()) return;
  auto array = session->second.find(key.array);
  if (array == session->second.end()) return;
  Unname(array->second);
  session->second.erase(array);
  if (session->second.empty()) sessions_.erase(session);
}

void BufferStore::EraseSession(SessionId session_id) {
  auto session = sessions_.find(session_id);
  if (session == sessions_.end()) return;
  for (auto& [id, slots] : session->second) Unname(slots);
  sessions_.erase(session);
}

void BufferStore::Clear() {
  while (!sessions_.empty()) EraseSession(sessions_.begin()->first);
}

absl::InlinedVector<BufferEntryPtr, 4> BufferStore::Entries(const ArrayKey& key) const {
  absl::InlinedVector<BufferEntryPtr, 4> entries;
  if (const Slots* slots = FindSlots(key)) {
    for (const Slot& slot : *slots) entries.push_back(slot.entry);
  }
  return entries;
}

}  // namespace switchtower
