#include "inspect/trace_json.h"

#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace switchtower {
namespace {

using introspection::TraceEvent;
using nlohmann::json;

TraceEvent Event(TraceEvent::Kind kind, uint64_t begin_ns, uint64_t end_ns, const std::string& name) {
  TraceEvent event;
  event.set_kind(kind);
  event.set_begin_ns(begin_ns);
  event.set_end_ns(end_ns);
  event.set_name(name);
  event.set_session(5);
  return event;
}

// One launch with its request, on two devices, and a transfer.
std::vector<TraceEvent> SomeEvents() {
  constexpr uint64_t kStart = 1'700'000'000'000'000'000;
  TraceEvent request = Event(TraceEvent::REQUEST, kStart, kStart + 2000, "loaded_executable_execute");
  request.set_flow_array(77);
  TraceEvent sequence = Event(TraceEvent::SEQUENCE, kStart + 3000, kStart + 4000, "launch of \"jit_step\"");
  sequence.set_flow_array(77);
  sequence.mutable_launch()->set_epoch(3);
  sequence.mutable_launch()->set_number(9);
  TraceEvent first = Event(TraceEvent::EXECUTE, kStart + 9000, kStart + 20000, "jit_step");
  *first.mutable_launch() = sequence.launch();
  first.set_worker("slice s0 host 1");
  TraceEvent second = first;
  second.set_device(1);
  TraceEvent transfer = Event(TraceEvent::TRANSFER, kStart + 21000, kStart + 20500, "array transfer");
  transfer.set_worker("slice s0 host 1");
  transfer.set_to_worker("slice s1 host 0");
  transfer.set_bytes(64);
  transfer.mutable_launch()->set_number(10);
  return {second, transfer, sequence, request, first};
}

TEST(TraceJson, IsWhatViewersRead) {
  const json trace = json::parse(TraceJson(SomeEvents(), 3));
  EXPECT_EQ(trace["otherData"]["dropped_events"], 3);
  EXPECT_EQ(trace["otherData"]["start_unix_ns"], 1'700'000'000'000'000'000);
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<std::string, std::vector<json>> by_phase;
  for (const json& event : trace["traceEvents"]) {
    by_phase[event["ph"]].push_back(event);
    if (event["name"] == "thread_name") tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  std::set<std::string> names;
  for (const auto& [key, name] : tracks) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"session 0000000000000005", "sequencer", "slice s0 host 1 device 0",
                                          "slice s0 host 1 device 1", "slice s0 host 1 to slice s1 host 0"}));
  ASSERT_EQ(by_phase["X"].size(), 5u);
  double last = 0;
  for (const json& slice : by_phase["X"]) {
    EXPECT_TRUE(tracks.count({slice["pid"], slice["tid"]}));
    EXPECT_GE(slice["ts"].get<double>(), last);
    EXPECT_GE(slice["dur"].get<double>(), 0);  // a clock that was set back makes nothing negative
    last = slice["ts"];
  }
  EXPECT_EQ(by_phase["X"][0]["ts"], 0.0);
  EXPECT_EQ(by_phase["X"][1]["name"], "launch of \"jit_step\"");
  EXPECT_EQ(by_phase["X"][1]["args"]["launch"], "3.9");
  // request -> operation, operation -> each device
  ASSERT_EQ(by_phase["s"].size(), 3u);
  ASSERT_EQ(by_phase["f"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(by_phase["s"][i]["id"], by_phase["f"][i]["id"]);
    EXPECT_LE(by_phase["s"][i]["ts"].get<double>(), by_phase["f"][i]["ts"].get<double>());
  }
  EXPECT_EQ(tracks[std::make_pair(by_phase["s"][0]["pid"].get<int>(), by_phase["s"][0]["tid"].get<int>())],
            "session 0000000000000005");
}

TEST(TraceJson, AnEmptyTraceIsOne) {
  const json trace = json::parse(TraceJson({}, 0));
  EXPECT_TRUE(trace["traceEvents"].empty());
}

TEST(TraceJson, ArrowsNeedBothEnds) {
  std::vector<TraceEvent> events = SomeEvents();
  events.erase(events.begin() + 2);  // the sequencer's
  const json trace = json::parse(TraceJson(events, 0));
  for (const json& event : trace["traceEvents"]) EXPECT_NE(event["ph"], "s");
}

}  // namespace
}  // namespace switchtower
