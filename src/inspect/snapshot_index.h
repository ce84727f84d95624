// A snapshot with its things found by name: what `why` walks along.
//
// Place:    inspect; pure. The snapshot outlives the index.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "switchtower/introspection_service.pb.h"

namespace switchtower {

// Of one lease: the names of seats, arrays and launches are its own.
class HomeIndex {
 public:
  explicit HomeIndex(const introspection::Home& home);

  using ArrayName = std::pair<uint64_t, uint64_t>;   // session, array
  using LaunchName = std::pair<uint64_t, uint64_t>;  // epoch, number
  static LaunchName NameOf(const introspection::LaunchId& id) { return {id.epoch(), id.number()}; }

  struct Queued {
    const introspection::Session* session = nullptr;
    int position = 0;
  };
  struct Transfer {
    const introspection::Worker* worker = nullptr;  // that waits
    const introspection::Activity::Transfer* transfer = nullptr;
  };

  const introspection::Home& home() const { return home_; }
  // Each is null, or empty, where there is none.
  const introspection::Launch* FindLaunch(const LaunchName& name) const;
  const introspection::Launch* ProducerOf(const ArrayName& array) const;
  Queued QueuedProducerOf(const ArrayName& array) const;
  std::vector<Transfer> TransfersTo(const ArrayName& array) const;
  const introspection::Activity::Upload* UploadOf(const ArrayName& array) const;
  const introspection::Worker* WorkerOn(int32_t seat) const;
  const introspection::Worker* FindWorker(uint64_t id) const;
  const introspection::Session* FindSession(uint64_t id) const;
  std::vector<const introspection::Collective*> CollectivesOf(const LaunchName& name) const;
  // What the device says of itself; null if its worker never answered.
  const introspection::Activity::Device* DeviceAt(const introspection::DevicePlace& place) const;

  // "slice s0 host 1", "slice s0 host 1 device 0"
  std::string SeatName(int32_t seat) const;
  std::string DeviceName(const introspection::DevicePlace& place) const;

 private:
  const introspection::Home& home_;
  std::map<LaunchName, const introspection::Launch*> launches_;
  std::map<ArrayName, const introspection::Launch*> producers_;
  std::map<ArrayName, Queued> queued_;
  std::multimap<ArrayName, Transfer> transfers_;
  std::map<ArrayName, const introspection::Activity::Upload*> uploads_;
  std::map<int32_t, const introspection::Worker*> seats_;
  std::map<uint64_t, const introspection::Worker*> workers_;
  std::map<uint64_t, const introspection::Session*> sessions_;
  std::multimap<LaunchName, const introspection::Collective*> collectives_;
};

}  // namespace switchtower
