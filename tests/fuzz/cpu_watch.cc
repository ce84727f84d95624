// An input that costs much processor time is a finding: whoever sends it takes that time from everybody else. libFuzzer
// looks at the clock on the wall, which also runs while others have the processor.
//
// Place:    linked into fuzzers only; the linker puts the function here in the place of the target's (--wrap).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

extern "C" int __real_LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// All sanitizers are on: without them it's some tenths of a second.
constexpr double kSecondsMax = 2;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

extern "C" int __wrap_LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const double begin = CpuSeconds();
  const int result = __real_LLVMFuzzerTestOneInput(data, size);
  const double seconds = CpuSeconds() - begin;
  if (seconds > kSecondsMax) {
    std::fprintf(stderr, "an input of %zu bytes cost %.1f s of processor time\n", size, seconds);
    std::abort();
  }
  return result;
}
