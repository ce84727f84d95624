#include "inspect/why.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "inspect/text.h"
#include "inspect/why_walk.h"

namespace switchtower {
namespace {

using introspection::Reason;
using introspection::Snapshot;
using introspection::WhyReport;

struct Target {
  enum class Kind { kAll, kSession, kArray, kDevice } kind = Kind::kAll;
  uint64_t number = 0;                                   // of a session, an array or a device
  std::optional<std::vector<std::string>> slice_device;  // SLICE, HOST, DEVICE
};

absl::Status Unclear(const std::string& text) {
  return absl::InvalidArgumentError(fmt::format(
      "{} isn't something to ask about: name `session ID`, `array ID`, `device ID` or `device SLICE/HOST/DEVICE`, as "
      "`switchtower status` shows them, or nothing for all that clients wait for",
      text));
}

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  Target target;
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" :"), absl::SkipEmpty());
  if (words.empty()) return target;
  if (words.size() > 2) return Unclear(text);
  const std::string& id = words.back();
  const std::string kind = words.size() == 2                   ? words.front()
                           : id.find('/') != std::string::npos ? "device"
                           : id.size() == 16                   ? "session"
                                                               : "array";
  if (kind == "session") {
    target.kind = Target::Kind::kSession;
    if (!absl::SimpleHexAtoi(id, &target.number)) return Unclear(text);
  } else if (kind == "array") {
    target.kind = Target::Kind::kArray;
    if (!absl::SimpleAtoi(id, &target.number)) return Unclear(text);
  } else if (kind == "device") {
    target.kind = Target::Kind::kDevice;
    if (id.find('/') != std::string::npos) {
      target.slice_device.emplace(absl::StrSplit(id, '/'));
      if (target.slice_device->size() != 3) return Unclear(text);
    } else if (!absl::SimpleAtoi(id, &target.number)) {
      return Unclear(text);
    }
  } else {
    return Unclear(text);
  }
  return target;
}

void ExplainSession(WhyWalk& walk, const introspection::Session& session, WhyReport* report) {
  const int before = report->reasons_size();
  const std::string who = fmt::format("session {} ({})", SessionText(session.id()), session.peer());
  if (session.compiles() > 0) {
    std::string what = fmt::format("{} has {} program{} compiled, for {} so far", who, session.compiles(),
                                   session.compiles() == 1 ? "" : "s", AgeText(session.compile_age_us()));
    if (session.compiles_waiting() > 0) {
      what += fmt::format("; {} of them wait{} for a compiler", session.compiles_waiting(),
                          session.compiles_waiting() == 1 ? "s" : "");
    }
    report->add_reasons()->set_what(std::move(what));
  }
  for (const auto& wait : walk.index().home().waits()) {
    if (wait.session() == session.id()) *report->add_reasons() = walk.Wait(wait);
  }
  Reason more;
  if (session.queue_size() > 0) *more.add_because() = walk.Queued(session, 0);
  if (report->reasons_size() > before) {
    more.set_what(fmt::format("{} has {} operations that aren't sent yet", who, session.operations_queued()));
    if (more.because_size() > 0) *report->add_reasons() = std::move(more);
    return;
  }
  more.set_what(who + " waits for no answer");
  for (const auto& launch : walk.index().home().in_flight()) {
    if (launch.session() != session.id()) continue;
    more.set_what(
        fmt::format("{}; it has {} launches in flight, this is the oldest", more.what(), session.launches_in_flight()));
    *more.add_because() = walk.Launch(launch);
    break;
  }
  *report->add_reasons() = std::move(more);
}

void ExplainArray(WhyWalk& walk, uint64_t array, WhyReport* report) {
  for (const auto& session : walk.index().home().sessions()) {
    Reason reason = walk.Array({session.id(), array});
    if (reason.because_size() == 0) continue;
    reason.set_what(fmt::format("{} of session {}", reason.what(), SessionText(session.id())));
    *report->add_reasons() = std::move(reason);
  }
}

void ExplainDevice(WhyWalk& walk, const Target& target, WhyReport* report) {
  std::optional<introspection::DevicePlace> found;
  if (target.slice_device.has_value()) {
    const std::vector<std::string>& parts = *target.slice_device;
    for (const auto& worker : walk.index().home().workers()) {
      int32_t ordinal = 0;
      if (worker.name() != fmt::format("slice {} host {}", parts[0], parts[1])) continue;
      if (!absl::SimpleAtoi(parts[2], &ordinal) || ordinal < 0) continue;
      if (worker.state() == introspection::Worker::UP && ordinal >= worker.num_devices()) continue;
      found.emplace();
      found->set_seat(worker.seat());
      found->set_ordinal(ordinal);
    }
  } else {
    for (const auto& session : walk.index().home().sessions()) {
      for (const auto& device : session.devices()) {
        if (device.id() == target.number) found = device.place();
      }
    }
  }
  if (found.has_value()) *report->add_reasons() = walk.Device(*found);
}

}  // namespace

absl::StatusOr<WhyReport> ExplainWhy(const Snapshot& snapshot, const std::string& text) {
  const absl::StatusOr<Target> target = ParseTarget(text);
  if (!target.ok()) return target.status();
  WhyReport report;
  for (const introspection::Home& home : snapshot.homes()) {
    WhyWalk walk(home);
    if (target->kind == Target::Kind::kArray) ExplainArray(walk, target->number, &report);
    if (target->kind == Target::Kind::kDevice) ExplainDevice(walk, *target, &report);
    if (target->kind != Target::Kind::kAll && target->kind != Target::Kind::kSession) continue;
    for (const std::string& peer : home.opening()) {
      if (target->kind != Target::Kind::kAll) break;
      report.add_reasons()->set_what(
          fmt::format("client {} waits to open its session: no slice of a known size and type is there", peer));
    }
    for (const introspection::Session& session : home.sessions()) {
      if (target->kind == Target::Kind::kAll || session.id() == target->number) ExplainSession(walk, session, &report);
    }
  }
  for (const introspection::RelayedSession& session : snapshot.relayed()) {
    const bool all = target->kind == Target::Kind::kAll;
    if (!all && (target->kind != Target::Kind::kSession || session.id() != target->number)) continue;
    report.add_reasons()->set_what(fmt::format("session {} ({}) is at the proxy at {}: ask it, with --target=grpc://{}",
                                               SessionText(session.id()), session.peer(), session.home(),
                                               session.home()));
  }
  if (report.reasons_size() > 0) return report;
  switch (target->kind) {
    case Target::Kind::kAll:
      report.add_reasons()->set_what("there is no session");
      break;
    case Target::Kind::kSession:
      return absl::NotFoundError(fmt::format("there is no session {}", SessionText(target->number)));
    case Target::Kind::kArray:
      report.add_reasons()->set_what(fmt::format(
          "array {} is waited for by nothing here: it is computed, deleted or was never made", target->number));
      break;
    case Target::Kind::kDevice:
      return absl::NotFoundError(fmt::format("no session has a device {}", text));
  }
  return report;
}

namespace {

void Append(const Reason& reason, int depth, std::string* text) {
  *text += std::string(static_cast<size_t>(depth) * 2, ' ') + (depth > 0 ? "because " : "") + reason.what() + "\n";
  for (const Reason& below : reason.because()) Append(below, depth + 1, text);
}

}  // namespace

std::string WhyText(const WhyReport& report) {
  std::string text;
  for (const Reason& reason : report.reasons()) Append(reason, 0, &text);
  return text;
}

}  // namespace switchtower
