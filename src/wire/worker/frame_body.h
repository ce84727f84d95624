// Cutting a frame's body into head and payload, for both directions.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <google/protobuf/message_lite.h>

#include "absl/status/status.h"

namespace switchtower::worker_wire {

inline constexpr size_t kLengthBytes = 4;

inline std::string FrameHead(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  std::string head(kLengthBytes + size, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) head[i] = static_cast<char>((size >> (8 * i)) & 0xff);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(head.data()) + kLengthBytes);
  return head;
}

inline absl::Status CutBody(std::string_view body, google::protobuf::MessageLite* message, std::string_view* payload) {
  if (body.size() < kLengthBytes) return absl::InvalidArgumentError("worker message: shorter than its length");
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) size |= size_t{static_cast<uint8_t>(body[i])} << (8 * i);
  body.remove_prefix(kLengthBytes);
  if (size > body.size() || size > INT32_MAX || !message->ParseFromArray(body.data(), static_cast<int>(size))) {
    return absl::InvalidArgumentError("worker message: head can't be read");
  }
  *payload = body.substr(size);
  return absl::OkStatus();
}

inline std::shared_ptr<const std::string> PayloadCopy(std::string_view payload) {
  return std::make_shared<const std::string>(payload);
}

}  // namespace switchtower::worker_wire
