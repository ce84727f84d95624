// What a device is, as engines report it and as sessions see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "types/ids.h"

namespace switchtower {

// The kind of a slice's devices: what a program is compiled for. Slices of equal type are interchangeable.
struct DeviceType {
  std::string platform;                   // the engine's platform name: "cpu"
  std::string device_kind;                // the engine's device kind: "cpu"
  std::string instruction_set;            // CPU model and feature flags that generated code may use; hash or text
  std::vector<std::string> memory_kinds;  // first is the default: {"device", "pinned_host", "unpinned_host"}
  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

// A device of one worker, as the runtime places work on it. Never shown to a client.
struct PhysicalDevice {
  WorkerId worker;
  int32_t ordinal = 0;  // 0..D-1 inside the worker
  friend auto operator<=>(const PhysicalDevice&, const PhysicalDevice&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PhysicalDevice& d) {
    return H::combine(std::move(h), d.worker, d.ordinal);
  }
};

// A device as one session sees it. Stable for the session's life, whatever it is bound to.
struct VirtualDevice {
  DeviceId id;
  int32_t slice_index = 0;
  int32_t task_index = 0;       // virtual_task_index: the host inside the job
  int32_t ordinal_on_host = 0;  // local hardware id
  std::vector<int64_t> coords;  // x, y, z inside the slice
  int32_t core_on_chip = 0;
  int32_t num_cores = 1;
  int32_t colocation_id = 0;
};

}  // namespace switchtower
