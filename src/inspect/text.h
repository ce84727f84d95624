// Numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace switchtower {

std::string BytesText(uint64_t bytes);      // "1.5 MiB"
std::string AgeText(int64_t microseconds);  // "3.2 s", "450 ms"
std::string SessionText(uint64_t session);  // 16 hexadecimal digits
// "0-3, 7"; the list is sorted first.
std::string RangesText(std::vector<int64_t> numbers);
// "a, b, c and 5 more"
std::string ListText(const std::vector<std::string>& names, size_t max = 4);

// " (train.py:14)"; empty if nobody knows.
std::string SiteText(const std::string& source);

}  // namespace switchtower
