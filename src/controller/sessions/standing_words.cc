#include "controller/sessions/standing_words.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace switchtower {
namespace {

std::optional<int32_t> Number(const std::string& text, int32_t min, int32_t max) {
  int32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || value < min || value > max) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<SessionStanding> ParseStanding(const std::string& weight, const std::string& priority) {
  constexpr int32_t kWeightMax = SessionStanding::kWeightMax, kPriorityMax = SessionStanding::kPriorityMax;
  SessionStanding standing;
  if (!weight.empty()) {
    const std::optional<int32_t> number = Number(weight, 1, kWeightMax);
    if (!number.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("initialization_data's weight \"{}\" isn't a whole number from 1 to {}", weight, kWeightMax));
    }
    standing.weight = *number;
  }
  if (!priority.empty()) {
    const std::optional<int32_t> number = Number(priority, -kPriorityMax, kPriorityMax);
    if (!number.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("initialization_data's priority \"{}\" isn't a whole number from {} to {}", priority,
                      -kPriorityMax, kPriorityMax));
    }
    standing.priority = *number;
  }
  return standing;
}

}  // namespace switchtower
