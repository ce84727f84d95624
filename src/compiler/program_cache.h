// Compiled programs on disk, by content.
//
// One file for each program: header (magic, format version, sizes, checksum), then the zstd-compressed proto.
// Files appear by an atomic rename and are never changed, so several proxies may share a folder. Native code
// is run from it: the folder must be ours alone, and a file that isn't whole is deleted and counts as absent.
// When the files outgrow the bound, those not used for the longest time go.
//
// Place:    compiler; owned by CachingCompileService.
// Threads:  any. Calls do disk I/O: not on a strand of the controller.
// Errors:   Open: FailedPrecondition with what is wrong with the folder. Otherwise none: a cache that can't
//           read or write is a cache that misses, with one warning in the log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "types/program.h"

namespace switchtower {

// Counted up with each change of the file format, of compiler.proto's meaning, or of how programs are checked and
// lowered: older entries are then never found.
inline constexpr uint32_t kProgramFormatVersion = 4;

class ProgramCache {
 public:
  struct Options {
    std::string folder;
    uint64_t bytes_max = uint64_t{4} << 30;
  };
  struct Stats {
    uint64_t hits = 0, misses = 0, corrupt = 0, writes = 0, evicted = 0, bytes = 0;
  };

  // Makes the folder (and its parents) if it isn't there.
  static absl::StatusOr<std::unique_ptr<ProgramCache>> Open(Options options);
  // $XDG_CACHE_HOME/switchtower/programs, or ~/.cache/switchtower/programs; empty if neither is set.
  static std::string DefaultFolder();

  // Null if there is none.
  std::shared_ptr<const CompiledProgram> Get(const ProgramId& id);
  void Put(const CompiledProgram& program);
  Stats stats();

 private:
  explicit ProgramCache(Options options) : options_(std::move(options)) {}
  std::string PathOf(const ProgramId& id) const;
  // Deletes the oldest until the files take 9/10 of the bound, and counts what is left.
  void Trim() EXCLUDES(mutex_);

  const Options options_;
  Mutex mutex_;
  Stats stats_ GUARDED_BY(mutex_);
  bool warned_ GUARDED_BY(mutex_) = false;
};

}  // namespace switchtower
