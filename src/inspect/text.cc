#include "inspect/text.h"

#include <algorithm>

#include <fmt/format.h>

namespace switchtower {

std::string BytesText(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string AgeText(int64_t microseconds) {
  if (microseconds < 1000) return fmt::format("{} us", microseconds);
  if (microseconds < 1000 * 1000) return fmt::format("{} ms", microseconds / 1000);
  const double seconds = static_cast<double>(microseconds) / 1e6;
  return seconds < 120 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

std::string SessionText(uint64_t session) { return fmt::format("{:016x}", session); }

std::string RangesText(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string ListText(const std::vector<std::string>& names, size_t max) {
  std::string text;
  const size_t shown = names.size() <= max + 1 ? names.size() : max;
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string SiteText(const std::string& source) { return source.empty() ? "" : fmt::format(" ({})", source); }

}  // namespace switchtower
