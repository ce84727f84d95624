#include "inspect/trace_json.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inspect/text.h"

namespace switchtower {
namespace {

using introspection::TraceEvent;
using nlohmann::json;

enum Process { kClient = 1, kController = 2, kDevices = 3, kTransfers = 4 };

std::string IdText(const introspection::LaunchId& id) { return fmt::format("{}.{}", id.epoch(), id.number()); }

class Writer;

// Numbers the tracks as they come up.
class Tracks {
 public:
  int Of(int process, const std::string& name) {
    auto [it, added] = tracks_.try_emplace({process, name}, static_cast<int>(tracks_.size()) + 1);
    return it->second;
  }
  void Describe(Writer* writer) const;

 private:
  std::map<std::pair<int, std::string>, int> tracks_;
};

struct Placed {
  int process = 0;
  std::string track;
  json arguments;
};

Placed PlaceOf(const TraceEvent& event) {
  switch (event.kind()) {
    case TraceEvent::REQUEST:
      return {kClient, "session " + SessionText(event.session()), json::object()};
    case TraceEvent::SEQUENCE: {
      Placed placed{kController, "sequencer", {{"session", SessionText(event.session())}}};
      if (event.has_launch()) placed.arguments["launch"] = IdText(event.launch());
      return placed;
    }
    case TraceEvent::EXECUTE:
      return {
          kDevices, fmt::format("{} device {}", event.worker(), event.device()), {{"launch", IdText(event.launch())}}};
    case TraceEvent::TRANSFER:
      return {kTransfers,
              fmt::format("{} to {}", event.worker(), event.to_worker()),
              {{"transfer", IdText(event.launch())}, {"bytes", event.bytes()}}};
    default:
      return {};
  }
}

// Where an arrow begins or ends: at the start of a slice.
struct Anchor {
  int process = 0;
  int track = 0;
  double at_us = 0;
};

struct Flow {
  std::optional<Anchor> from;
  std::vector<Anchor> to;
};
using Flows = std::map<std::pair<uint64_t, uint64_t>, Flow>;

json FlowPoint(const char* phase, uint64_t id, const Anchor& anchor) {
  json point{{"ph", phase},           {"cat", "flow"},       {"name", "dispatch"}, {"id", id},
             {"pid", anchor.process}, {"tid", anchor.track}, {"ts", anchor.at_us}};
  if (*phase == 'f') point["bp"] = "e";  // binds to the slice that encloses it
  return point;
}

// Event by event, so that a long trace is never there as a tree of values.
class Writer {
 public:
  void Add(const json& event) {
    text_ += first_ ? "\n" : ",\n";
    text_ += event.dump();
    first_ = false;
  }
  void Add(const Flows& flows) {
    for (const auto& [name, flow] : flows) {
      if (!flow.from.has_value()) continue;
      for (const Anchor& to : flow.to) {
        Add(FlowPoint("s", ++flow_id_, *flow.from));
        Add(FlowPoint("f", flow_id_, to));
      }
    }
  }
  std::string End(const json& other) && {
    return std::move(text_) + "\n],\"displayTimeUnit\":\"ms\",\"otherData\":" + other.dump() + "}\n";
  }

 private:
  std::string text_ = "{\"traceEvents\":[";
  bool first_ = true;
  uint64_t flow_id_ = 0;
};

void Tracks::Describe(Writer* writer) const {
  static const std::map<int, const char*> kProcesses{
      {kClient, "client"}, {kController, "controller"}, {kDevices, "devices"}, {kTransfers, "transfers"}};
  std::set<int> described;
  const auto describe = [writer](const char* what, int process, int track, json arguments) {
    writer->Add({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", std::move(arguments)}});
  };
  for (const auto& [key, track] : tracks_) {
    const auto& [process, name] = key;
    if (described.insert(process).second) {
      describe("process_name", process, 0, {{"name", kProcesses.at(process)}});
      describe("process_sort_index", process, 0, {{"sort_index", process}});
    }
    describe("thread_name", process, track, {{"name", name}});
  }
}

}  // namespace

std::string TraceJson(std::vector<TraceEvent> events, uint64_t dropped) {
  std::erase_if(events, [](const TraceEvent& event) { return PlaceOf(event).process == 0; });
  std::sort(events.begin(), events.end(),
            [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns() < b.begin_ns(); });
  const uint64_t start_ns = events.empty() ? 0 : events.front().begin_ns();
  const auto microseconds = [](uint64_t ns) { return static_cast<double>(ns) / 1000.0; };

  Writer writer;
  Tracks tracks;
  Flows by_array;   // session, array
  Flows by_launch;  // epoch, number
  for (const TraceEvent& event : events) {
    const Placed placed = PlaceOf(event);
    const Anchor anchor{placed.process, tracks.Of(placed.process, placed.track),
                        microseconds(event.begin_ns() - start_ns)};
    writer.Add({{"ph", "X"},
                {"name", event.name()},
                {"pid", anchor.process},
                {"tid", anchor.track},
                {"ts", anchor.at_us},
                {"dur", microseconds(std::max(event.end_ns(), event.begin_ns()) - event.begin_ns())},
                {"args", placed.arguments}});
    const std::pair<uint64_t, uint64_t> array{event.session(), event.flow_array()};
    const std::pair<uint64_t, uint64_t> launch{event.launch().epoch(), event.launch().number()};
    if (event.kind() == TraceEvent::REQUEST && array.second != 0) by_array[array].from = anchor;
    if (event.kind() == TraceEvent::SEQUENCE && array.second != 0) by_array[array].to.push_back(anchor);
    if (event.kind() == TraceEvent::SEQUENCE && event.has_launch()) by_launch[launch].from = anchor;
    if (event.kind() == TraceEvent::EXECUTE) by_launch[launch].to.push_back(anchor);
  }
  writer.Add(by_array);
  writer.Add(by_launch);
  tracks.Describe(&writer);
  return std::move(writer).End({{"start_unix_ns", start_ns}, {"dropped_events", dropped}});
}

}  // namespace switchtower
