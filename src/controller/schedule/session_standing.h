// What a session may claim beside others, as its client asked for it.
#pragma once

#include <cstdint>

namespace switchtower {

struct SessionStanding {
  static constexpr int32_t kWeightMax = 1'000'000;
  static constexpr int32_t kPriorityMax = 1'000'000;

  int32_t weight = 1;    // of device time, under the policy `share`
  int32_t priority = 0;  // larger goes first, under the policy `priority`
};

}  // namespace switchtower
