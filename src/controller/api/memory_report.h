// Who holds the memory of a device, as a value: for the error that says that it is full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace switchtower {

struct MemoryHolder {
  uint64_t user_context = 0;  // of the request that made the buffers; 0: nobody that the reader may know
  std::string creator;        // "result of jit_step"
  int64_t ready_count = 0;
  int64_t ready_bytes = 0;
  int64_t pending_count = 0;  // still being computed, or in use by what is
  int64_t pending_bytes = 0;

  int64_t bytes() const { return ready_bytes + pending_bytes; }
};

struct MemoryReport {
  std::string device;
  std::vector<MemoryHolder> holders;  // the largest first
  std::string warning;                // e.g. that the list was cut
};

}  // namespace switchtower
