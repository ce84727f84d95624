#include "cli/core_share.h"

#include <sched.h>

#include <algorithm>

namespace switchtower {

CoreShare ShareOfCores(const std::vector<int>& cores, int worker, int workers) {
  const int count = static_cast<int>(cores.size());
  CoreShare share;
  share.threads = std::max(1, count / workers);
  if (workers == 1) return share;
  if (count % workers == 0) {
    const auto begin = cores.begin() + worker * share.threads;
    share.cores.assign(begin, begin + share.threads);
  } else if (workers % count == 0) {
    share.cores.push_back(cores[worker % count]);
  }
  return share;
}

std::vector<int> UsableCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);  // more than cpu_set_t can name: too many to be short of
  return cores;
}

}  // namespace switchtower
