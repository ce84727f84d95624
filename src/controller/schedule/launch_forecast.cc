#include "controller/schedule/launch_forecast.h"

#include <algorithm>

namespace switchtower {

int64_t LaunchForecast::Duration(const ProgramId& program) const {
  auto it = durations_.find(program);
  return it == durations_.end() ? kUnknownNs : it->second;
}

void LaunchForecast::Measured(const ProgramId& program, int64_t ns) {
  auto [it, added] = durations_.try_emplace(program, ns);
  // A mean over the last few: one that was disturbed is soon forgotten.
  if (!added) it->second += (ns - it->second) / 4;
  // To forget one costs a few wrong guesses.
  if (durations_.size() > kProgramsMax) durations_.erase(it == durations_.begin() ? std::next(it) : durations_.begin());
}

LaunchForecast::Expectation LaunchForecast::Expect(SessionId session, const LaunchOp& launch, int64_t now_ns) const {
  Expectation expected;
  expected.start_ns = now_ns;
  expected.duration_ns = Duration(launch.program->program->id);
  if (auto arrays = arrays_.find(session); arrays != arrays_.end()) {
    for (ArrayId argument : launch.arguments) {
      auto it = arrays->second.find(argument);
      if (it == arrays->second.end()) continue;  // the client's data
      expected.start_ns = std::max(expected.start_ns, it->second.ready_ns);
      expected.chain_length = std::max(expected.chain_length, it->second.chain_length);
    }
  }
  ++expected.chain_length;
  for (const Place& place : launch.program->devices->places) {
    if (const Lane* lane = lanes_.Find(place)) expected.start_ns = std::max(expected.start_ns, lane->free_ns);
  }
  return expected;
}

void LaunchForecast::Sent(SessionId session, const LaunchOp& launch, const Expectation& expected) {
  auto& arrays = arrays_[session];
  for (ArrayId result : launch.results) arrays[result] = {expected.end_ns(), expected.chain_length};
  for (const Place& place : launch.program->devices->places) {
    Lane& lane = lanes_[place];
    lane.free_ns = std::max(lane.free_ns, expected.end_ns());
    ++lane.ahead;
  }
}

void LaunchForecast::Ended(const DeviceList& devices, const Expectation& expected, int64_t now_ns) {
  // What is queued behind it moves by as much as it was early or late.
  const int64_t late_ns = now_ns - expected.end_ns();
  for (const Place& place : devices.places) {
    Lane& lane = lanes_[place];
    lane.free_ns = --lane.ahead == 0 ? now_ns : std::max(now_ns, lane.free_ns + late_ns);
  }
}

void LaunchForecast::Describe(const Op& op, int64_t now_ns, LaunchCandidate& candidate) const {
  candidate.start_ns = now_ns;
  if (const auto* launch = std::get_if<LaunchOp>(&op.body)) {
    const Expectation expected = Expect(op.session, *launch, now_ns);
    candidate.start_ns = expected.start_ns;
    candidate.chain_length = expected.chain_length;
  }
}

void LaunchForecast::Derive(SessionId session, ArrayId from, ArrayId to) {
  auto arrays = arrays_.find(session);
  if (arrays == arrays_.end()) return;
  if (auto it = arrays->second.find(from); it != arrays->second.end()) {
    const ArrayForecast forecast = it->second;
    arrays->second[to] = forecast;
  }
}

void LaunchForecast::Passed(const Op& op) {
  if (const auto* bind = std::get_if<BindOp>(&op.body)) {
    for (const BindOp::Binding& binding : bind->bindings) Derive(op.session, binding.from, binding.to);
  } else if (const auto* transfer = std::get_if<TransferOp>(&op.body)) {
    Derive(op.session, transfer->from, transfer->to);
  } else if (const auto* gone = std::get_if<DeleteOp>(&op.body)) {
    auto arrays = arrays_.find(op.session);
    if (arrays == arrays_.end()) return;
    for (const DeleteOp::Group& group : gone->groups) {
      for (ArrayId array : group.arrays) arrays->second.erase(array);
    }
  }
}

void LaunchForecast::DropSession(SessionId session) { arrays_.erase(session); }

}  // namespace switchtower
