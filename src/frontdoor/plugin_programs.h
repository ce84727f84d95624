// The plug-in programs of one session: executables that are carried out with the session's requests for arrays.
//
// Place:    frontdoor; in the session's state.
// Threads:  the session's strand.
// Errors:   as ParsePluginProgram and Session::Reshard say; results that the client named are bound to them.
// Lifetime: `session` outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/api/session.h"
#include "wire/ifrt/plugin_program.h"

namespace switchtower {

class PluginPrograms {
 public:
  explicit PluginPrograms(Session& session) : session_(session) {}

  // `data` as the client serialised it.
  absl::StatusOr<CompileReply> Compile(const std::string& data, const DeviceSet& known);

  bool Contains(uint64_t executable) const { return programs_.contains(executable); }
  // The rest is for what it contains.
  const std::vector<DeviceId>& Devices(uint64_t executable) const;
  std::vector<std::string> ResultMemoryKinds(uint64_t executable) const;
  // As Session::Execute.
  absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request, Callback<absl::Status> on_status);
  void Erase(uint64_t executable) { programs_.erase(executable); }

 private:
  struct Entry {
    ReshardProgram program;
    // From the first execution on: the client remembers what its results are.
    std::vector<ArraySpec> results;
  };
  // What the arguments become.
  absl::StatusOr<std::vector<ArraySpec>> Describe(const ReshardProgram& program,
                                                  const std::vector<ArrayId>& arguments) const;
  absl::Status Run(Entry& entry, const ExecuteRequest& request, const std::vector<ArrayId>& results);

  Session& session_;
  absl::flat_hash_map<uint64_t, Entry> programs_;
};

}  // namespace switchtower
