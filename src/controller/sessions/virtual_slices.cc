#include "controller/sessions/virtual_slices.h"

#include <cctype>

#include <fmt/format.h>

namespace switchtower {
namespace {

// "2x2": numbers of one to six digits with an x between.
bool IsTopology(const std::string& text) {
  size_t digits = 0;
  for (char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      if (++digits > 6) return false;
    } else if (c == 'x' && digits > 0) {
      digits = 0;
    } else {
      return false;
    }
  }
  return digits > 0;
}

}  // namespace

absl::StatusOr<std::vector<SliceRequest>> ParseVirtualSlices(const std::string& text) {
  std::vector<SliceRequest> slices;
  std::string word;
  const auto take = [&]() -> absl::Status {
    const size_t colon = word.find(':');
    if (colon == std::string::npos || colon == 0 || !IsTopology(word.substr(colon + 1))) {
      return absl::InvalidArgumentError(fmt::format(
          "virtual slice \"{}\" isn't TYPE:TOPOLOGY; write for example \"cpu:2x2,cpu:2x2\" for two slices of 2 "
          "hosts with 2 devices each",
          word));
    }
    slices.push_back(SliceRequest{std::exchange(word, {})});
    return absl::OkStatus();
  };
  for (char c : text) {
    if (c == ',') {
      if (absl::Status status = take(); !status.ok()) return status;
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      word += c;
    }
  }
  if (word.empty() && slices.empty()) return slices;
  if (absl::Status status = take(); !status.ok()) return status;
  return slices;
}

}  // namespace switchtower
