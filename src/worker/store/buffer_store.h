// Names of shards: (session, array, device ordinal) -> entry.
//
// Place:    worker/store.
// Threads:  the intake only; the entries themselves go anywhere.
// Invariants: an entry's `names` is the number of names here that lead to it.
#pragma once

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "types/ids.h"
#include "worker/store/buffer_entry.h"

namespace switchtower {

class BufferStore {
 public:
  BufferStore();
  ~BufferStore();
  BufferStore(const BufferStore&) = delete;
  BufferStore& operator=(const BufferStore&) = delete;

  // A new pending entry under this name.
  BufferEntryPtr Promise(const ArrayKey& key, int32_t ordinal);
  // The entry of that name; where there is none, an error entry that says so.
  BufferEntryPtr Find(const ArrayKey& key, int32_t ordinal) const;
  // `to` becomes another name of what `from` names.
  void Bind(const ArrayKey& from, const ArrayKey& to, int32_t ordinal);
  // The name reads as `error` from now on; its entry goes on living for those who hold it.
  void ReplaceByError(const ArrayKey& key, int32_t ordinal, absl::Status error);
  void Erase(const ArrayKey& key);
  void EraseSession(SessionId session);
  void Clear();

  // All entries of the array here, in no order.
  absl::InlinedVector<BufferEntryPtr, 4> Entries(const ArrayKey& key) const;

  const StoreUsage& usage() const { return *usage_; }
  // Of one device.
  const StoreUsage& usage_of(int32_t ordinal) const { return *DeviceUsage(ordinal); }

 private:
  struct Slot {
    int32_t ordinal;
    BufferEntryPtr entry;
  };
  using Slots = absl::InlinedVector<Slot, 2>;
  using Arrays = absl::flat_hash_map<ArrayId, Slots>;

  const Slots* FindSlots(const ArrayKey& key) const;
  void Name(const ArrayKey& key, int32_t ordinal, BufferEntryPtr entry);
  static void Unname(Slots& slots);
  const std::shared_ptr<StoreUsage>& DeviceUsage(int32_t ordinal) const;

  const std::shared_ptr<StoreUsage> usage_;
  mutable absl::flat_hash_map<int32_t, std::shared_ptr<StoreUsage>> device_usage_;
  absl::flat_hash_map<SessionId, Arrays> sessions_;
};

}  // namespace switchtower
