#include "base/net/payload.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace switchtower {
namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

std::shared_ptr<char> AllocateBytes(size_t size) {
  auto* memory = static_cast<char*>(::operator new(std::max<size_t>(size, 1), kAlignment, std::nothrow));
  if (memory == nullptr) return nullptr;
  return std::shared_ptr<char>(memory, [](char* p) { ::operator delete(p, kAlignment); });
}

void Payload::Own() {
  for (Piece& piece : pieces_) {
    if (piece.owner != nullptr) continue;
    auto copy = std::make_shared<const std::string>(piece.bytes);
    piece = Piece{*copy, copy};
  }
}

void Payload::CopyTo(char* to, size_t offset, size_t length) const {
  for (const Piece& piece : pieces_) {
    if (length == 0) return;
    if (offset >= piece.bytes.size()) {
      offset -= piece.bytes.size();
      continue;
    }
    const size_t part = std::min(length, piece.bytes.size() - offset);
    std::memcpy(to, piece.bytes.data() + offset, part);
    to += part;
    length -= part;
    offset = 0;
  }
}

std::string Payload::ToString() const {
  std::string bytes(size_, '\0');
  CopyTo(bytes.data(), 0, size_);
  return bytes;
}

std::shared_ptr<char> ReceivedBytes::Take() && {
  if (owner_ == nullptr) {
    owner_ = AllocateBytes(view_.size());
    CHECK(owner_ != nullptr);
    if (!view_.empty()) std::memcpy(owner_.get(), view_.data(), view_.size());
  }
  return std::move(owner_);
}

}  // namespace switchtower
