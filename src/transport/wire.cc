#include "transport/wire.h"

namespace switchtower::transport_wire {
namespace {

template <typename T>
bool TakeValue(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof(T) || !FromBytes(bytes.substr(0, sizeof(T)), value)) return false;
  bytes.remove_prefix(sizeof(T));
  return true;
}

bool TakeString(std::string_view& bytes, std::string& value) {
  uint32_t size;
  if (!TakeValue(bytes, size) || size > bytes.size()) return false;
  value = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

void PutString(std::string& bytes, const std::string& value) {
  bytes += AsBytes(static_cast<uint32_t>(value.size()));
  bytes += value;
}

}  // namespace

std::string EncodeHello(const Hello& hello) {
  std::string bytes(AsBytes(hello.version));
  bytes += AsBytes(hello.from.value);
  bytes += AsBytes(hello.to.value);
  PutString(bytes, hello.cluster_id);
  PutString(bytes, hello.build);
  PutString(bytes, hello.secret);
  return bytes;
}

absl::StatusOr<Hello> DecodeHello(std::string_view bytes) {
  Hello hello;
  const auto malformed = [] { return absl::InvalidArgumentError("a malformed hello"); };
  if (!TakeValue(bytes, hello.version)) return malformed();
  if (hello.version != kVersion) return hello;
  if (!TakeValue(bytes, hello.from.value) || !TakeValue(bytes, hello.to.value) ||
      !TakeString(bytes, hello.cluster_id) || !TakeString(bytes, hello.build) || !TakeString(bytes, hello.secret) ||
      !bytes.empty()) {
    return malformed();
  }
  return hello;
}

}  // namespace switchtower::transport_wire
