// The way to the home of shared slices (S-3): a refusal that tells where to go instead, with the address of the home's
// door, and what came of following it.
//
// Place: types; made by the resource manager, followed by the front door. What is between hands the status on.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "types/ids.h"

namespace switchtower {

inline constexpr char kHomeDoorPayload[] = "switchtower/home_door";

// `door`: "host:port". Empty: the home can't be reached by other proxies, and the status stays a plain error.
inline absl::Status WithHomeDoor(absl::Status status, const std::string& door) {
  if (!door.empty()) status.SetPayload(kHomeDoorPayload, absl::Cord(door));
  return status;
}

inline std::optional<std::string> HomeDoorOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kHomeDoorPayload);
  return payload.has_value() ? std::optional<std::string>(std::string(*payload)) : std::nullopt;
}

// A session whose client came to one door and is relayed from there to its home.
struct RelayedSession {
  SessionId id;
  std::string peer;  // the client
  std::string home;  // "host:port"
};

}  // namespace switchtower
