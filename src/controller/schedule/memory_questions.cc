#include "controller/schedule/memory_questions.h"

#include <algorithm>
#include <map>

namespace switchtower {

void MemoryQuestions::Ask(const ClusterView& view, std::vector<std::pair<DeviceId, Place>> devices, int64_t limit,
                          Callback<std::vector<DeviceMemory>> done) {
  auto question = std::make_shared<Question>();
  question->limit = limit;
  std::map<int32_t, std::vector<std::pair<DeviceId, int32_t>>> by_seat;
  for (const auto& [device, place] : devices) {
    if (view.link(place.seat) != nullptr) by_seat[place.seat].emplace_back(device, place.ordinal);
    // A worker that isn't in yet holds nothing.
    if (view.state(place.seat) == ClusterView::SeatState::kWaiting) question->answer.push_back({device, 0, 0, limit});
  }
  question->done = std::move(done);
  // One more, for the case that there is nobody to ask.
  question->remaining = by_seat.size() + 1;
  for (auto& [seat, ordinals] : by_seat) {
    const RequestId id{++last_id_};
    const WorkerLinkPtr link = view.link(seat);
    parts_.emplace(id, Part{link, std::move(ordinals), question});
    link->Send(WorkerCommand(AskMemory{id}));
  }
  PartEnded(*question);
}

void MemoryQuestions::OnAnswer(const WorkerLink& link, const MemoryInUse& answer) {
  auto it = parts_.find(answer.request);
  if (it == parts_.end() || it->second.link.get() != &link) return;
  const Part part = std::move(it->second);
  parts_.erase(it);
  for (const auto& [device, ordinal] : part.ordinals) {
    if (ordinal >= static_cast<int32_t>(answer.devices.size())) continue;
    part.question->answer.push_back({device, static_cast<int64_t>(answer.devices[ordinal].bytes),
                                     static_cast<int64_t>(answer.devices[ordinal].peak_bytes), part.question->limit});
  }
  PartEnded(*part.question);
}

void MemoryQuestions::WorkerLost(const WorkerLinkPtr& link) {
  std::vector<std::shared_ptr<Question>> ended;
  for (auto it = parts_.begin(); it != parts_.end();) {
    if (it->second.link != link) {
      ++it;
      continue;
    }
    ended.push_back(it->second.question);
    parts_.erase(it++);
  }
  for (const std::shared_ptr<Question>& question : ended) PartEnded(*question);
}

void MemoryQuestions::PartEnded(Question& question) {
  if (--question.remaining > 0) return;
  std::sort(question.answer.begin(), question.answer.end(),
            [](const DeviceMemory& a, const DeviceMemory& b) { return a.device < b.device; });
  question.done(std::move(question.answer));
}

}  // namespace switchtower
