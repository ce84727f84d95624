// The search for deadlocks of abseil's mutexes, off.
//
// Debian builds abseil without NDEBUG, so each mutex that gRPC locks or lets go enters a graph of the process' locks,
// behind one spin lock, and a cycle of it, which needn't be a deadlock, ends the process.
//
// Threads: before others start.
#pragma once

namespace switchtower {

void DontCheckAbseilLocks();

}  // namespace switchtower
