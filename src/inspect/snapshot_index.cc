#include "inspect/snapshot_index.h"

#include <fmt/format.h>

namespace switchtower {
namespace {

template <typename Map, typename Key>
typename Map::mapped_type Lookup(const Map& map, const Key& key) {
  auto it = map.find(key);
  return it == map.end() ? typename Map::mapped_type{} : it->second;
}

}  // namespace

HomeIndex::HomeIndex(const introspection::Home& home) : home_(home) {
  for (const auto& launch : home.in_flight()) {
    launches_[NameOf(launch.id())] = &launch;
    for (uint64_t result : launch.results()) producers_[{launch.session(), result}] = &launch;
  }
  for (const auto& session : home.sessions()) {
    sessions_[session.id()] = &session;
    for (int i = 0; i < session.queue_size(); ++i) {
      for (uint64_t array : session.queue(i).makes()) queued_[{session.id(), array}] = {&session, i};
    }
  }
  for (const auto& worker : home.workers()) {
    seats_[worker.seat()] = &worker;
    if (worker.id() != 0) workers_[worker.id()] = &worker;
    for (const auto& transfer : worker.activity().transfers()) {
      transfers_.insert({{transfer.session(), transfer.to()}, {&worker, &transfer}});
    }
    for (const auto& upload : worker.activity().uploads()) uploads_[{upload.session(), upload.array()}] = &upload;
  }
  for (const auto& collective : home.collectives()) {
    collectives_.insert({NameOf(collective.launch()), &collective});
  }
}

const introspection::Launch* HomeIndex::FindLaunch(const LaunchName& name) const { return Lookup(launches_, name); }
const introspection::Launch* HomeIndex::ProducerOf(const ArrayName& array) const { return Lookup(producers_, array); }
HomeIndex::Queued HomeIndex::QueuedProducerOf(const ArrayName& array) const { return Lookup(queued_, array); }
const introspection::Activity::Upload* HomeIndex::UploadOf(const ArrayName& array) const {
  return Lookup(uploads_, array);
}
const introspection::Worker* HomeIndex::WorkerOn(int32_t seat) const { return Lookup(seats_, seat); }
const introspection::Worker* HomeIndex::FindWorker(uint64_t id) const { return Lookup(workers_, id); }
const introspection::Session* HomeIndex::FindSession(uint64_t id) const { return Lookup(sessions_, id); }

std::vector<HomeIndex::Transfer> HomeIndex::TransfersTo(const ArrayName& array) const {
  std::vector<Transfer> found;
  const auto [begin, end] = transfers_.equal_range(array);
  for (auto it = begin; it != end; ++it) found.push_back(it->second);
  return found;
}

std::vector<const introspection::Collective*> HomeIndex::CollectivesOf(const LaunchName& name) const {
  std::vector<const introspection::Collective*> found;
  const auto [begin, end] = collectives_.equal_range(name);
  for (auto it = begin; it != end; ++it) found.push_back(it->second);
  return found;
}

const introspection::Activity::Device* HomeIndex::DeviceAt(const introspection::DevicePlace& place) const {
  const introspection::Worker* worker = WorkerOn(place.seat());
  if (worker == nullptr || place.ordinal() < 0 || place.ordinal() >= worker->activity().devices_size()) return nullptr;
  return &worker->activity().devices(place.ordinal());
}

std::string HomeIndex::SeatName(int32_t seat) const {
  const introspection::Worker* worker = WorkerOn(seat);
  return worker == nullptr ? fmt::format("seat {}", seat) : worker->name();
}

std::string HomeIndex::DeviceName(const introspection::DevicePlace& place) const {
  return fmt::format("{} device {}", SeatName(place.seat()), place.ordinal());
}

}  // namespace switchtower
