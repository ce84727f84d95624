#include "worker/exec/peer_status.h"

#include <cstdint>

#include "absl/strings/cord.h"

namespace switchtower {
namespace {

void PutText(std::string_view text, std::string* out) {
  const auto size = static_cast<uint32_t>(text.size());
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>((size >> shift) & 0xff));
  out->append(text);
}

bool GetText(std::string_view* body, std::string_view* text) {
  if (body->size() < 4) return false;
  uint32_t size = 0;
  for (int i = 0; i < 4; ++i) size |= uint32_t{static_cast<uint8_t>((*body)[i])} << (8 * i);
  body->remove_prefix(4);
  if (size > body->size()) return false;
  *text = body->substr(0, size);
  body->remove_prefix(size);
  return true;
}

}  // namespace

// {u8 code} {text message} ({text payload type} {text payload})*
std::string EncodePeerStatus(const absl::Status& status) {
  std::string body(1, static_cast<char>(status.code()));
  PutText(std::string(status.message()), &body);
  status.ForEachPayload([&](auto type, const absl::Cord& value) {
    PutText(std::string(type), &body);
    PutText(std::string(value), &body);
  });
  return body;
}

absl::Status DecodePeerStatus(std::string_view body) {
  const absl::Status unreadable = absl::DataLossError("a peer's error message can't be read");
  if (body.empty()) return unreadable;
  const auto code = static_cast<uint8_t>(body[0]);
  std::string_view text, type, value;
  body.remove_prefix(1);
  if (code == 0 || code > static_cast<uint8_t>(absl::StatusCode::kUnauthenticated) || !GetText(&body, &text)) {
    return unreadable;
  }
  absl::Status status(static_cast<absl::StatusCode>(code), std::string(text));
  while (!body.empty()) {
    if (!GetText(&body, &type) || !GetText(&body, &value)) return unreadable;
    status.SetPayload(std::string(type), absl::Cord(std::string(value)));
  }
  return status;
}

}  // namespace switchtower
