#include "controller/schedule/activity_questions.h"

#include <utility>

namespace switchtower {

uint64_t ActivityQuestions::Ask(const std::vector<WorkerLinkPtr>& links, Clock::time_point now,
                                absl::AnyInvocable<void()> done) {
  const uint64_t number = ++last_;
  Question question;
  for (const WorkerLinkPtr& link : links) question.open.insert(link.get());
  question.done = std::move(done);
  questions_.emplace(number, std::move(question));
  if (links.empty()) {
    Expire(number);
    return number;
  }
  for (const WorkerLinkPtr& link : links) {
    State& state = states_[link.get()];
    if (state.asked.has_value()) continue;
    state.asked = now;
    link->Send(WorkerCommand(AskActivity{RequestId{number}}));
  }
  return number;
}

void ActivityQuestions::Expire(uint64_t number) {
  auto it = questions_.find(number);
  if (it == questions_.end()) return;
  Question question = std::move(it->second);
  questions_.erase(it);
  question.done();
}

void ActivityQuestions::OnAnswer(const WorkerLinkPtr& link, WorkerActivity answer) {
  auto it = states_.find(link.get());
  if (it == states_.end()) return;
  it->second.latest = std::move(answer);
  it->second.asked.reset();
  Settle(link.get());
}

void ActivityQuestions::WorkerLost(const WorkerLinkPtr& link) {
  states_.erase(link.get());
  Settle(link.get());
}

void ActivityQuestions::Settle(const WorkerLink* link) {
  std::vector<uint64_t> ended;
  for (auto& [number, question] : questions_) {
    if (question.open.erase(link) > 0 && question.open.empty()) ended.push_back(number);
  }
  for (uint64_t number : ended) Expire(number);
}

const WorkerActivity* ActivityQuestions::Latest(const WorkerLink& link) const {
  auto it = states_.find(&link);
  return it == states_.end() || !it->second.latest.has_value() ? nullptr : &*it->second.latest;
}

std::optional<ActivityQuestions::Clock::time_point> ActivityQuestions::OwesSince(const WorkerLink& link) const {
  auto it = states_.find(&link);
  return it == states_.end() ? std::nullopt : it->second.asked;
}

}  // namespace switchtower
