// How the workers of a local cluster share this machine's cores, as if each were a host of its own.
//
// Left to the kernel, ranks that wait for each other often queue on one core while another is idle: it doesn't move a
// thread that ran on a core in the last half millisecond, and collectives come more often than that.
//
// Threads: any.
#pragma once

#include <vector>

namespace switchtower {

struct CoreShare {
  std::vector<int> cores;  // empty: the kernel chooses among all
  int threads = 1;         // of XLA's pool
};

// The share of `worker` of `workers` in `cores` (at least one): its own ones if all get equally many, or one that
// equally many workers have. Where neither is so all share all.
CoreShare ShareOfCores(const std::vector<int>& cores, int worker, int workers);

// Those that this process may use.
std::vector<int> UsableCores();

}  // namespace switchtower
