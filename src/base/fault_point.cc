#include "base/fault_point.h"

#include <algorithm>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

// Never destroyed: threads may still come by when the process ends.
std::vector<FaultPoint*>& AllPoints() {
  static auto* points = new std::vector<FaultPoint*>;
  return *points;
}

}  // namespace

FaultPoint::FaultPoint(const char* name, std::vector<std::string> keys) : name_(name), keys_(std::move(keys)) {
  AllPoints().push_back(this);
}

absl::Status FaultPoint::Arm(const std::string& specification) {
  const size_t colon = specification.find(':');
  const std::string name = specification.substr(0, colon);
  std::vector<std::string> known;
  for (FaultPoint* point : AllPoints()) {
    known.push_back(point->name_);
    if (point->name_ != name) continue;
    ASSIGN_OR_RETURN(Rule rule,
                     point->Parse(specification, colon == std::string::npos ? "" : specification.substr(colon + 1)));
    MutexLock lock(point->mutex_);
    point->rules_.push_back(std::move(rule));
    point->armed_.store(true, std::memory_order_release);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("there is no fault point {}; there are: {}", name, absl::StrJoin(known, ", ")));
}

absl::StatusOr<FaultPoint::Rule> FaultPoint::Parse(const std::string& text, const std::string& conditions) const {
  Rule rule;
  rule.text = text;
  if (conditions.empty()) return rule;
  for (const std::string& condition : std::vector<std::string>(absl::StrSplit(conditions, ','))) {
    const std::vector<std::string> parts = absl::StrSplit(condition, '=');
    int64_t value = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &value) || value < 0) {
      return absl::InvalidArgumentError(fmt::format("fault point {}: {} isn't KEY=NUMBER", name_, condition));
    }
    const auto key = std::find(keys_.begin(), keys_.end(), parts[0]);
    if (key != keys_.end()) {
      rule.equal.emplace_back(static_cast<size_t>(key - keys_.begin()), value);
    } else if (parts[0] == "after") {
      rule.after = value;
    } else if (parts[0] == "times") {
      rule.times = value;
    } else {
      return absl::InvalidArgumentError(fmt::format("fault point {} has no key {}; it has: {}, after, times", name_,
                                                    parts[0], absl::StrJoin(keys_, ", ")));
    }
  }
  return rule;
}

bool FaultPoint::FiresArmed(std::initializer_list<int64_t> values) {
  CHECK(values.size() == keys_.size());
  MutexLock lock(mutex_);
  bool fires = false;
  for (Rule& rule : rules_) {
    const bool matches = std::all_of(rule.equal.begin(), rule.equal.end(),
                                     [&](const auto& pair) { return values.begin()[pair.first] == pair.second; });
    if (!matches) continue;
    if (rule.after > 0) {
      --rule.after;
    } else if (rule.times > 0) {
      --rule.times;
      fires = true;
    }
  }
  return fires;
}

void FaultPoint::DisarmAll() {
  for (FaultPoint* point : AllPoints()) {
    MutexLock lock(point->mutex_);
    point->armed_.store(false, std::memory_order_release);
    point->rules_.clear();
  }
}

std::vector<std::string> FaultPoint::Armed() {
  std::vector<std::string> armed;
  for (FaultPoint* point : AllPoints()) {
    MutexLock lock(point->mutex_);
    for (const Rule& rule : point->rules_) armed.push_back(rule.text);
  }
  return armed;
}

}  // namespace switchtower
