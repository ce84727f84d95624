// How many descriptors this process may have open.
//
// Systems begin processes with a soft limit of 1,024 for the sake of programs that use select(). A proxy needs four for
// each client, a worker four for each peer, and at the limit nobody can connect, nor be compiled for.
#pragma once

namespace switchtower {

// As many as the hard limit allows. Processes that this one starts inherit it.
void RaiseFileLimit();

}  // namespace switchtower
