// The C library's heap in a process whose threads free what others allocated.
//
// glibc gives each of up to eight threads a core an arena of its own. What is freed in one isn't used for another, so
// that a process with many threads that pass buffers on ends up with several times the memory that it needs; and what
// is free inside an arena stays with the process.
//
// Threads: LimitHeapArenas before other threads start, TrimHeap on any. With another C library both do nothing.
#pragma once

namespace switchtower {

// One arena a core, four at least.
void LimitHeapArenas();

// Gives free memory back to the system. Takes milliseconds, more after much was freed, and holds up allocations
// meanwhile: after a session's end, not within.
void TrimHeap();

}  // namespace switchtower
