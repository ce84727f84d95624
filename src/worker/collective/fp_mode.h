// The floating point mode of XLA's own threads: round to nearest, denormals flushed to zero.
//
// Place:    worker/collective. Every thread of ours that reduces, or that resumes a program by completing its
//           collective, is in this mode meanwhile: otherwise bits would depend on which thread came last.
// Threads:  acts on the calling thread alone and restores its mode.
#pragma once

#include <cstdint>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace switchtower {

class ScopedXlaFloatMode {
 public:
#if defined(__SSE__)
  ScopedXlaFloatMode() : saved_(_mm_getcsr()) {
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kRounding = 0x6000;
    _mm_setcsr((saved_ & ~kRounding) | kFlushToZero | kDenormalsAreZero);
  }
  ~ScopedXlaFloatMode() { _mm_setcsr(saved_); }

 private:
  const unsigned saved_;
#elif defined(__aarch64__)
  ScopedXlaFloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    constexpr uint64_t kFlushToZero = 1ull << 24, kRounding = 3ull << 22;
    const uint64_t mode = (saved_ & ~kRounding) | kFlushToZero;
    asm volatile("msr fpcr, %0" : : "r"(mode));
  }
  ~ScopedXlaFloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  uint64_t saved_ = 0;
#else
#error "no floating point mode for this processor"
#endif
  ScopedXlaFloatMode(const ScopedXlaFloatMode&) = delete;
  ScopedXlaFloatMode& operator=(const ScopedXlaFloatMode&) = delete;
};

}  // namespace switchtower
