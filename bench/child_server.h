// A server that is this same binary once more, in a process of its own, so that its CPU time can be told from that of
// the measuring side.
//
// Place:    bench.
// Errors:   Start gives a sentence; a child that ends early is its clients' broken connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace switchtower::bench {

class ChildServer {
 public:
  // Runs /proc/self/exe with these arguments; the child tells its address in its first line (AnnounceAndServe).
  static absl::StatusOr<std::unique_ptr<ChildServer>> Start(std::vector<std::string> arguments);
  // Ends the child.
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  const std::string& address() const { return address_; }
  // CPU time of the child so far.
  int64_t CpuNs() const;

 private:
  ChildServer(int pid, int input, std::string address) : pid_(pid), input_(input), address_(std::move(address)) {}

  const int pid_;
  const int input_;  // the child ends with it
  const std::string address_;
};

// The child's side: tells the address and returns when the parent is gone.
void AnnounceAndServe(const std::string& address);

}  // namespace switchtower::bench
