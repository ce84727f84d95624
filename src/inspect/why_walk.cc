#include "inspect/why_walk.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "inspect/text.h"

namespace switchtower {
namespace {

using introspection::Reason;

constexpr int kArraysOfWaitMax = 8;

}  // namespace

Reason WhyWalk::Leaf(std::string what) {
  Reason reason;
  reason.set_what(std::move(what));
  return reason;
}

std::string WhyWalk::IdText(const introspection::LaunchId& id) { return std::to_string(id.number()); }

std::string WhyWalk::Silence(const introspection::Worker* worker) const {
  if (worker == nullptr) return "";
  switch (worker->state()) {
    case introspection::Worker::UP:
      if (worker->silent_us() == 0) return "";
      return fmt::format(
          "{} doesn't answer (for {} so far): its process is stopped, its host is gone, or the network is",
          worker->name(), AgeText(worker->silent_us()));
    case introspection::Worker::DOWN:
      return fmt::format("{} was lost and isn't back yet", worker->name());
    default:
      return fmt::format("no worker has come in for {} yet", worker->name());
  }
}

Reason WhyWalk::SilenceReason(const introspection::Worker& worker) {
  if (silences_.insert(worker.seat()).second) return Leaf(Silence(&worker));
  return Leaf(worker.name() + " isn't there, see above");
}

std::string WhyWalk::LaunchText(const introspection::Launch& launch) const {
  std::string text = fmt::format("launch {} of {}{}", IdText(launch.id()), launch.name(), SiteText(launch.source()));
  if (!launch.call_site().empty()) text += fmt::format(", called at {}", launch.call_site());
  return text;
}

Reason WhyWalk::Wait(const introspection::Wait& wait) {
  Reason reason;
  std::vector<std::string> names;
  for (uint64_t array : wait.arrays()) names.push_back(std::to_string(array));
  const introspection::Session* session = index_.FindSession(wait.session());
  reason.set_what(fmt::format("session {}{} has waited {} {} array{} {}", SessionText(wait.session()),
                              session == nullptr ? "" : fmt::format(" ({})", session->peer()), AgeText(wait.age_us()),
                              wait.read() ? "to read" : "for", names.size() == 1 ? "" : "s", ListText(names)));
  int explained = 0;
  for (uint64_t array : wait.arrays()) {
    if (explained == kArraysOfWaitMax) break;
    const HomeIndex::ArrayName name{wait.session(), array};
    if (arrays_.contains(name)) continue;
    Reason why = Array(name);
    if (why.because_size() == 0) continue;  // it is there
    *reason.add_because() = std::move(why);
    ++explained;
  }
  if (explained > 0) return reason;
  std::vector<std::string> open;
  for (int32_t seat : wait.open_seats()) {
    const introspection::Worker* worker = index_.WorkerOn(seat);
    if (!Silence(worker).empty()) {
      *reason.add_because() = SilenceReason(*worker);
    } else {
      open.push_back(index_.SeatName(seat));
    }
  }
  if (!open.empty()) *reason.add_because() = Leaf("the answer of " + ListText(open) + " is on its way");
  return reason;
}

Reason WhyWalk::Array(const HomeIndex::ArrayName& array) {
  Reason reason = Leaf(fmt::format("array {}", array.second));
  if (!arrays_.insert(array).second) {
    reason.set_what(reason.what() + ", see above");
    return reason;
  }
  if (const introspection::Launch* launch = index_.ProducerOf(array); launch != nullptr) {
    *reason.add_because() = Launch(*launch);
  }
  for (const HomeIndex::Transfer& transfer : index_.TransfersTo(array)) *reason.add_because() = TransferTo(transfer);
  if (const auto* upload = index_.UploadOf(array); upload != nullptr) {
    *reason.add_because() = Leaf(fmt::format("the client has sent {} of its {}", BytesText(upload->bytes_here()),
                                             BytesText(upload->bytes_expected())));
  }
  if (const HomeIndex::Queued queued = index_.QueuedProducerOf(array); queued.session != nullptr) {
    *reason.add_because() = Queued(*queued.session, queued.position);
  }
  return reason;
}

Reason WhyWalk::Queued(const introspection::Session& session, int position) {
  const introspection::Session::Queued& queued = session.queue(position);
  Reason reason = Leaf(fmt::format("{}{} is queued at the controller, place {}", queued.what(),
                                   SiteText(queued.call_site()), position + 1));
  if (!queued_.insert({session.id(), position}).second) {
    reason.set_what(reason.what() + ", see above");
    return reason;
  }
  if (!queued.waits_for().empty()) {
    *reason.add_because() = Leaf("it waits for " + queued.waits_for());
  }
  if (position > 0 && queued.waits_for().empty()) *reason.add_because() = Queued(session, 0);
  if (queued.waits_for() == "memory" && index_.home().in_flight_size() > 0) {
    *reason.add_because() = Launch(index_.home().in_flight(0));
  }
  return reason;
}

Reason WhyWalk::TransferTo(const HomeIndex::Transfer& waiting) {
  const introspection::Activity::Transfer& transfer = *waiting.transfer;
  std::vector<std::string> sources;
  std::vector<const introspection::Worker*> workers;
  for (uint64_t id : transfer.sources()) {
    const introspection::Worker* worker = index_.FindWorker(id);
    workers.push_back(worker);
    sources.push_back(worker == nullptr ? "a worker that is gone" : worker->name());
  }
  introspection::DevicePlace place;
  place.set_seat(waiting.worker->seat());
  place.set_ordinal(transfer.ordinal());
  Reason reason = Leaf(fmt::format("transfer {} to {} waits for {} from {}, for {}", IdText(transfer.id()),
                                   index_.DeviceName(place), BytesText(transfer.bytes_missing()), ListText(sources),
                                   AgeText(transfer.age_us())));
  for (const introspection::Worker* worker : workers) {
    if (!Silence(worker).empty()) *reason.add_because() = SilenceReason(*worker);
  }
  Reason from = Array({transfer.session(), transfer.from()});
  if (from.because_size() > 0) *reason.add_because() = std::move(from);
  if (reason.because_size() == 0) {
    std::string what = fmt::format("array {} is there: its bytes are on their way", transfer.from());
    for (const introspection::Worker* worker : workers) {
      if (worker != nullptr && worker->activity().fault_points_size() > 0) {
        what += fmt::format("; {} has fault points: {}", worker->name(), worker->activity().fault_points(0));
      }
    }
    *reason.add_because() = Leaf(std::move(what));
  }
  return reason;
}

Reason WhyWalk::Launch(const introspection::Launch& launch) {
  Reason reason = Leaf(LaunchText(launch));
  if (!launches_.insert(HomeIndex::NameOf(launch.id())).second) {
    reason.set_what(reason.what() + ", see above");
    return reason;
  }
  std::vector<std::string> seats;
  for (int32_t seat : launch.open_seats()) seats.push_back(index_.SeatName(seat));
  reason.set_what(fmt::format("{}, sent {} ago, hasn't ended on {}", reason.what(), AgeText(launch.age_us()),
                              seats.empty() ? "any worker" : ListText(seats)));
  if (!launch.error().empty()) reason.set_what(reason.what() + "; it has failed: " + launch.error());
  ExplainOpenSeats(launch, reason.mutable_because());
  return reason;
}

void WhyWalk::ExplainTask(const introspection::DevicePlace& place, const introspection::Activity::Task& task,
                          Reasons* out) {
  if (const introspection::Launch* launch = index_.FindLaunch(HomeIndex::NameOf(task.launch())); launch != nullptr) {
    *out->Add() = Launch(*launch);
    return;
  }
  *out->Add() = Leaf(fmt::format("{} {} launch {} of {}, for {}", index_.DeviceName(place),
                                 task.running() ? "runs" : "waits with", IdText(task.launch()), task.program(),
                                 AgeText(task.age_us())));
}

Reason WhyWalk::Device(const introspection::DevicePlace& place) {
  Reason reason = Leaf(index_.DeviceName(place));
  const introspection::Worker* worker = index_.WorkerOn(place.seat());
  if (!Silence(worker).empty()) {
    *reason.add_because() = SilenceReason(*worker);
    return reason;
  }
  const introspection::Activity::Device* device = index_.DeviceAt(place);
  if (device == nullptr || (device->tasks_size() == 0 && device->queued() == 0)) {
    reason.set_what(reason.what() + " is idle: nothing was launched on it that hasn't ended");
    return reason;
  }
  reason.set_what(fmt::format("{} has {} launches to end", reason.what(), device->tasks_size() + device->queued()));
  if (device->tasks_size() > 0) ExplainTask(place, device->tasks(0), reason.mutable_because());
  return reason;
}

}  // namespace switchtower
