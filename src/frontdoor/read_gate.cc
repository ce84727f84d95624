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

bool ReadGate::Stop() {
  if (stopped_) return false;
  stopped_ = true;
  return true;
}

bool ReadGate::OnResume() {
  stopped_ = false;
  return StartIfWaiting();
}

}  // namespace switchtower
