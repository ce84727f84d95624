#include "frontdoor/answer_queue.h"

#include <utility>

namespace switchtower {
namespace {

// Of an answer in memory, beside what it says.
constexpr size_t kAnswerBytes = 256;

bool NobodyWaits(const IfrtResponse& answer) {
  if (answer.response_metadata().status().code() != tensorflow::error::OK) return false;
  switch (answer.response_case()) {
    case IfrtResponse::kLoadedExecutableExecuteResponse:
      return answer.loaded_executable_execute_response().outputs().empty();
    case IfrtResponse::kDestructArrayResponse:
      return true;
    default:
      return false;
  }
}

}  // namespace

void AnswerQueue::Push(IfrtResponse answer) {
  const size_t bytes = kAnswerBytes + answer.ByteSizeLong();
  bytes_ += bytes;
  // The first one brings the stream's initial metadata, whatever it is.
  if (!std::exchange(pushed_, true) || !NobodyWaits(answer)) {
    awaited_.push_back({std::move(answer), bytes});
    return;
  }
  held_back_.push_back({std::move(answer), bytes});
  if (held_back_.size() - released_ >= kBatch) Release();
}

IfrtResponse AnswerQueue::Take() {
  std::deque<Answer>& from = awaited_.empty() ? held_back_ : awaited_;
  if (awaited_.empty()) --released_;
  IfrtResponse answer = std::move(from.front().response);
  bytes_ -= from.front().bytes;
  from.pop_front();
  return answer;
}

void AnswerQueue::Clear() {
  awaited_.clear();
  held_back_.clear();
  released_ = 0;
  bytes_ = 0;
}

}  // namespace switchtower
