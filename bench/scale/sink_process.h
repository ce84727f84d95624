// Workers that do nothing, behind real sockets: a process that takes any number of connections at one address, speaks
// the worker's side of the command protocol on each and answers launches with watermarks, as often as a worker does.
//
// Place:    bench/scale; run as a ChildServer.
// Errors:   a broken connection ends that connection.
#pragma once

#include <string>

namespace switchtower::bench {

// The process's main. `address`: "tcp:127.0.0.1:0" or "unix-abstract:name". Serves as long as its parent lives.
int RunSink(const std::string& address);

}  // namespace switchtower::bench
