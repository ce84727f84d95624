#include "process_use.h"

#include <malloc.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace switchtower::bench {

int64_t OwnCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t ProcessCpuNs(int pid) {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::map<std::string, int64_t> OwnCpuNsByThread() {
  std::map<std::string, int64_t> by_name;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    int64_t ns = 0;
    std::ifstream(task.path() / "comm") >> name;
    std::ifstream(task.path() / "schedstat") >> ns;
    by_name[name] += ns;
  }
  return by_name;
}

int64_t HeapBytes() {
  const auto info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace switchtower::bench
