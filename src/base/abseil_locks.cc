#include "base/abseil_locks.h"

#include "absl/synchronization/mutex.h"

namespace switchtower {

void DontCheckAbseilLocks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace switchtower
