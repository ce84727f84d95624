#include "base/file_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace switchtower {

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    LogWarn("can't have more than {} files open: {}", before, strerror(errno));
  }
}

}  // namespace switchtower
