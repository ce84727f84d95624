// A compiled program on a session's devices: what Execute needs of it, worked out once.
//
// Place:    controller/programs; pure.
// Errors:   INVALID_ARGUMENT where the client's options name devices that the session doesn't have, or not as
//           many as the program has partitions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/api/session.h"
#include "controller/arrays/array_info.h"
#include "controller/arrays/device_table.h"
#include "types/device.h"
#include "types/program.h"

namespace switchtower {

struct PlacedProgram {
  std::shared_ptr<const CompiledProgram> program;
  DeviceType compiled_for;
  std::vector<DeviceId> device_ids;   // by rank
  DeviceListPtr devices;              // the same as places
  std::vector<ArrayInfoPtr> results;  // never change: the client caches them
  std::vector<int64_t> result_bytes;  // of each result, on each device
  std::shared_ptr<const void> calls;  // ClientCallServer::Hold; null if it calls nobody
};
using PlacedProgramPtr = std::shared_ptr<const PlacedProgram>;

// Device ids by rank as the client's options name them; `num_devices` of the session bounds them.
absl::StatusOr<std::vector<DeviceId>> AssignedDevices(const std::string& options, size_t num_devices);

absl::StatusOr<PlacedProgramPtr> PlaceProgram(std::shared_ptr<const CompiledProgram> program,
                                              std::vector<DeviceId> device_ids, DeviceType compiled_for,
                                              DeviceTable& devices, ClientCallServer* calls = nullptr);

}  // namespace switchtower
