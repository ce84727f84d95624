// The compiler process: answers CompileCalls on a socket, one after the other, until the other end closes it.
//
// Place:    compiler; the role `switchtower compiler`, started by CompilerClient only.
// Threads:  the caller's; XLA has its own pools.
// Lifetime: ends with its parent: by the end of the socket, and by a signal if the parent dies while XLA works.
// Errors:   a program's are answers. XLA may abort: then this process ends, and the parent says so.
#pragma once

#include <string>

namespace switchtower {

// Returns the exit status.
int CompilerMain(int fd, const std::string& plugin_path);

}  // namespace switchtower
