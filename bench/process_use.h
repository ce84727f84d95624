// What processes of this machine use, as the kernel counts it.
//
// Place:  bench.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace switchtower::bench {

// CPU time of all threads.
int64_t ProcessCpuNs(int pid);
int64_t OwnCpuNs();
// CPU time of this process's threads that live, by the threads' name.
std::map<std::string, int64_t> OwnCpuNsByThread();
// Bytes that are allocated and in use, in this process.
int64_t HeapBytes();
int64_t ResidentBytes();

}  // namespace switchtower::bench
