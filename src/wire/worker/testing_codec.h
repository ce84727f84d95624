// What the tests of commands and of events share: a value's body, and what comes back of it.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/cord.h"
#include "wire/worker/worker_codec.h"

namespace switchtower {

inline std::string Body(const WorkerCommand& command) {
  std::string body = EncodeCommandHead(command);
  if (auto payload = CommandPayload(command)) body += *payload;
  return body;
}

inline std::string Body(const WorkerEvent& event) {
  std::string body = EncodeEventHead(event);
  if (auto payload = EventPayload(event)) body += *payload;
  return body;
}

template <typename T>
T RoundTrip(const T& value) {
  absl::StatusOr<WorkerCommand> decoded = DecodeCommand(Body(WorkerCommand(value)));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<T>(*decoded);
}

template <typename T>
T EventRoundTrip(const T& value) {
  absl::StatusOr<WorkerEvent> decoded = DecodeEvent(Body(WorkerEvent(value)));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<T>(*decoded);
}

inline std::shared_ptr<const std::string> Bytes(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

inline absl::Status CauseWithPayload() {
  absl::Status cause = absl::DataLossError("slice 1 is gone");
  cause.SetPayload("type.googleapis.com/ifrt.UserContext", absl::Cord("17"));
  return cause;
}

inline const PhysicalDevice kD0{WorkerId{0xfedcba9876543210u}, 0};
inline const PhysicalDevice kD3{WorkerId{7}, 3};

// Up to four bytes of it are others.
inline std::string Broken(std::string bytes, std::mt19937& random) {
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int c = 0; c < changes; ++c) bytes[random() % bytes.size()] = static_cast<char>(random());
  return bytes;
}

// Each kind with nothing in it: still of its kind, since one of no kind would cost its sender the connection.
template <typename Variant, size_t... kKinds>
std::vector<Variant> EmptyOnes(std::index_sequence<kKinds...>) {
  return {Variant(std::in_place_index<kKinds>)...};
}
template <typename Variant>
std::vector<Variant> EmptyOnes() {
  return EmptyOnes<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace switchtower
