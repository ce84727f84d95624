// The words `weight` and `priority` of a session's initialization_data.
//
// Errors:   INVALID_ARGUMENT that quotes the word and says what it may be.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "controller/schedule/session_standing.h"

namespace switchtower {

// Empty texts are the defaults.
absl::StatusOr<SessionStanding> ParseStanding(const std::string& weight, const std::string& priority);

}  // namespace switchtower
