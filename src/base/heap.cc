#include "base/heap.h"

#include <malloc.h>

#include <algorithm>
#include <thread>

namespace switchtower {

void LimitHeapArenas() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, std::max<int>(4, static_cast<int>(std::thread::hardware_concurrency())));
#endif
}

void TrimHeap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace switchtower
