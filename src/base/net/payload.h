// Bytes on their way out (Payload) and in (ReceivedBytes), without copies of what is large.
//
// Place:    base/net; the framed connections and the transport share these two types.
// Threads:  values; no synchronisation of their own. Owners are released on any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace switchtower {

// A list of pieces sent one after the other. A piece with an owner is kept, uncopied, until it is sent
// and the owner is dropped; a piece without one (View) is copied before the sending call returns.
class Payload {
 public:
  struct Piece {
    std::string_view bytes;
    std::shared_ptr<const void> owner;
  };

  Payload() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a body is a string more often than not.
  Payload(std::string bytes) { Append(std::make_shared<const std::string>(std::move(bytes))); }
  // One immutable body for many receivers.
  explicit Payload(std::shared_ptr<const std::string> bytes) { Append(std::move(bytes)); }
  // The bytes must last only until the sending call returns: cheapest for small bodies.
  static Payload View(std::string_view bytes) {
    Payload payload;
    payload.Append(bytes, nullptr);
    return payload;
  }
  static Payload Owned(std::string_view bytes, std::shared_ptr<const void> owner) {
    Payload payload;
    payload.Append(bytes, std::move(owner));
    return payload;
  }

  void Append(std::string_view bytes, std::shared_ptr<const void> owner) {
    if (bytes.empty()) return;
    size_ += bytes.size();
    pieces_.push_back(Piece{bytes, std::move(owner)});
  }
  void Append(std::shared_ptr<const std::string> bytes) {
    const std::string_view view = *bytes;
    Append(view, std::move(bytes));
  }

  size_t size() const { return size_; }
  const absl::InlinedVector<Piece, 2>& pieces() const { return pieces_; }
  absl::InlinedVector<Piece, 2> TakePieces() && {
    size_ = 0;
    return std::move(pieces_);
  }
  // Copies borrowed pieces, so that the payload may be kept.
  void Own();
  // Copies `length` bytes that begin at `offset` to `to`.
  void CopyTo(char* to, size_t offset, size_t length) const;
  std::string ToString() const;

 private:
  absl::InlinedVector<Piece, 2> pieces_;
  size_t size_ = 0;
};

// Memory for `size` bytes, uninitialised, aligned to 64 as device buffers want it; null if
// there is no such memory.
std::shared_ptr<char> AllocateBytes(size_t size);

// Bytes of one received frame or message. They are valid inside the callback that gets them; Take()
// makes them last, for nothing if they have memory of their own (bodies above 16 KiB) and by a
// copy otherwise. Only bytes with an owner are sure to be aligned to 64.
class ReceivedBytes {
 public:
  ReceivedBytes() = default;
  explicit ReceivedBytes(std::string_view borrowed) : view_(borrowed) {}
  ReceivedBytes(std::shared_ptr<char> owner, size_t size) : view_(owner.get(), size), owner_(std::move(owner)) {}
  ReceivedBytes(ReceivedBytes&&) = default;
  ReceivedBytes& operator=(ReceivedBytes&&) = default;

  std::string_view view() const { return view_; }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool owned() const { return owner_ != nullptr; }
  // The bytes, writable and lasting; the one owner of the memory.
  std::shared_ptr<char> Take() &&;

 private:
  std::string_view view_;
  std::shared_ptr<char> owner_;
};

}  // namespace switchtower
