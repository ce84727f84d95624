// The loaded executables of one session by handle, and the check that an Execute's arguments fit.
//
// Place:    controller/programs.
// Threads:  the session's strand.
// Errors:   INVALID_ARGUMENT naming the argument that doesn't fit and how.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "controller/programs/placed_program.h"

namespace switchtower {

class ExecutableTable {
 public:
  class Entry {
   public:
    explicit Entry(PlacedProgramPtr placed)
        : placed_(std::move(placed)), accepted_(placed_->program->info.parameters.size()) {}
    const PlacedProgram& placed() const { return *placed_; }
    const PlacedProgramPtr& placed_ptr() const { return placed_; }

    // Whether `array` may be argument `index`. In a steady state arguments share a description with ones that
    // were checked before: that costs a comparison of pointers, whatever the number of devices.
    absl::Status CheckArgument(size_t index, const ArrayInfoPtr& array);

   private:
    absl::Status CheckInFull(size_t index, const ArrayInfo& array) const;

    const PlacedProgramPtr placed_;
    // Descriptions that fitted before, the latest first: a step's state comes from a put once and from the
    // step ever after.
    std::vector<std::array<ArrayInfoPtr, 2>> accepted_;
  };

  void Add(uint64_t handle, PlacedProgramPtr placed) { entries_.try_emplace(handle, std::move(placed)); }
  absl::StatusOr<Entry*> Find(uint64_t handle);
  absl::Status Erase(uint64_t handle);
  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  absl::flat_hash_map<uint64_t, Entry> entries_;
};

}  // namespace switchtower
