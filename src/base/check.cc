#include "base/check.h"

#include <cstdlib>

#include "base/log.h"

namespace switchtower {

void CheckFailed(const char* file, int line, const char* what) {
  LogError("check failed at {}:{}: {}", file, line, what);
  FlushLog();
  std::abort();
}

}  // namespace switchtower
