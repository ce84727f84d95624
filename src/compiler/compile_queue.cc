#include "compiler/compile_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace switchtower {

CompileQueue::Turn& CompileQueue::TurnOf(SessionId session) {
  auto [it, fresh] = turns_.try_emplace(session);
  if (fresh) it->second.last = ++last_turn_;
  return it->second;
}

void CompileQueue::Await(Turn& turn, uint64_t number) {
  // Behind those that wait already: most clients have one program compiled after the other.
  if (turn.waiting.empty() && turn.running == 0) turn.last = ++last_turn_;
  turn.waiting.push_back(number);
}

void CompileQueue::Add(JobPtr job) {
  const uint64_t number = job->number;
  const SessionId session = job->request.session;
  Await(TurnOf(session), number);
  jobs_.emplace(number, Job{std::move(job), {session}});
}

void CompileQueue::Join(uint64_t number, SessionId session) {
  auto it = jobs_.find(number);
  if (it == jobs_.end()) return;
  Job& job = it->second;
  if (std::find(job.sessions.begin(), job.sessions.end(), session) != job.sessions.end()) return;
  job.sessions.push_back(session);
  Turn& turn = TurnOf(session);
  if (job.running) {
    ++turn.running;
  } else {
    Await(turn, number);
  }
}

size_t CompileQueue::startable() const {
  if (running_ < compilers_) return waiting();
  size_t idle_sessions = 0;
  for (const auto& [session, turn] : turns_) idle_sessions += turn.running == 0 && !turn.waiting.empty() ? 1 : 0;
  return std::min(idle_sessions, compilers_ + spare_ - running_);
}

CompileQueue::Turns::const_iterator CompileQueue::Next() const {
  auto best = turns_.end();
  for (auto it = turns_.begin(); it != turns_.end(); ++it) {
    const Turn& turn = it->second;
    if (turn.waiting.empty()) continue;
    if (best == turns_.end() || std::tie(turn.running, turn.last) < std::tie(best->second.running, best->second.last)) {
      best = it;
    }
  }
  if (best == turns_.end() || running_ < compilers_) return best;
  return best->second.running == 0 && running_ < compilers_ + spare_ ? best : turns_.end();
}

CompileQueue::JobPtr CompileQueue::Take() {
  const auto next = Next();
  if (next == turns_.end()) return nullptr;
  const SessionId whose = next->first;
  const uint64_t number = next->second.waiting.front();
  Job& job = jobs_.at(number);
  job.running = true;
  ++running_;
  for (SessionId session : job.sessions) {
    Turn& turn = turns_.at(session);
    std::erase(turn.waiting, number);
    ++turn.running;
  }
  turns_.at(whose).last = ++last_turn_;
  return job.job;
}

bool CompileQueue::Drop(uint64_t number) {
  auto it = jobs_.find(number);
  if (it == jobs_.end() || it->second.running) return false;
  Remove(number);
  return true;
}

CompileQueue::JobPtr CompileQueue::Find(uint64_t number) const {
  auto it = jobs_.find(number);
  return it == jobs_.end() ? nullptr : it->second.job;
}

void CompileQueue::Remove(uint64_t number) {
  auto it = jobs_.find(number);
  const Job& job = it->second;
  if (job.running) --running_;
  for (SessionId session : job.sessions) {
    auto turn = turns_.find(session);
    if (job.running) {
      --turn->second.running;
    } else {
      std::erase(turn->second.waiting, number);
    }
    if (turn->second.running == 0 && turn->second.waiting.empty()) turns_.erase(turn);
  }
  jobs_.erase(it);
}

size_t CompileQueue::waiting(SessionId session) const {
  auto it = turns_.find(session);
  return it == turns_.end() ? 0 : it->second.waiting.size();
}

std::vector<CompileQueue::JobPtr> CompileQueue::all() const {
  std::vector<JobPtr> jobs;
  for (const auto& [number, job] : jobs_) jobs.push_back(job.job);
  return jobs;
}

}  // namespace switchtower
