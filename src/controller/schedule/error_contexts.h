// Which request a worker's error belongs to: workers know launches, only the controller knows the client's
// requests. An error that reaches the client through any later array still names the request that first failed.
//
// Threads:  the home strand.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "controller/arrays/array_info.h"

namespace switchtower {

class ErrorContexts {
 public:
  // Of several launches with these words the earliest keeps them: the others passed on what they were given,
  // even if their failure was told sooner.
  void Remember(const absl::Status& error, LaunchId launch, uint64_t user_context) {
    if (error.ok() || user_context == 0) return;
    auto [it, added] = contexts_.try_emplace(std::string(error.message()), launch, user_context);
    if (!added) {
      if (launch < it->second.first) it->second = {launch, user_context};
      return;
    }
    order_.emplace_back(error.message());
    if (order_.size() <= kMax) return;
    contexts_.erase(order_.front());
    order_.pop_front();
  }
  bool Knows(const absl::Status& error) const {
    return error.GetPayload(kUserContextPayload).has_value() || contexts_.contains(std::string(error.message()));
  }
  absl::Status Attach(absl::Status error) const {
    if (error.ok()) return error;
    auto it = contexts_.find(std::string(error.message()));
    return it == contexts_.end() ? error : WithUserContext(std::move(error), it->second.second);
  }

 private:
  static constexpr size_t kMax = 256;
  absl::flat_hash_map<std::string, std::pair<LaunchId, uint64_t>> contexts_;
  std::deque<std::string> order_;
};

}  // namespace switchtower
