#include "frontdoor/read_gate.h"

namespace switchtower {

bool ReadGate::StartIfWaiting() {
  if (!waiting_ || !Open()) return false;
  waiting_ = false;
  return true;
}

bool ReadGate::OnRead(size_t bytes) {
  ++requests_;
  bytes_ += bytes;
  waiting_ = true;
  return StartIfWaiting();
}

bool ReadGate::OnHandled(size_t bytes) {
  --requests_;
  bytes_ -= bytes;
  return StartIfWaiting();
}

bool ReadGate::Place(Hold hold) {
  const auto bit = static_cast<uint8_t>(hold);
  if ((holds_ & bit) != 0) return false;
  holds_ |= bit;
  return true;
}

bool ReadGate::OnRelease(Hold hold) {
  holds_ &= ~static_cast<uint8_t>(hold);
  return StartIfWaiting();
}

bool ReadGate::OnReleaseAll() {
  holds_ = 0;
  return StartIfWaiting();
}

}  // namespace switchtower
