// How a logical array lies on an ordered list of devices.
//
// Formula: XLA's OpSharding (xla_data.proto). A tiled sharding cuts dimension d into tile_dims[d] equal
// blocks; the trailing entries of tile_dims beyond the array's rank are replication groups. tile_devices
// lists, in row-major order of tile_dims, the POSITION in `devices` (not the device id) that holds the tile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "types/ids.h"
#include "types/shape.h"

namespace switchtower {

// A box inside an array: start[d] <= index[d] < start[d] + size[d], in elements.
struct Box {
  std::vector<int64_t> start;
  std::vector<int64_t> size;
  friend bool operator==(const Box&, const Box&) = default;
};

struct Sharding {
  enum class Kind {
    kSingleDevice,  // one device holds everything
    kReplicated,    // every device holds everything
    kMaximal,       // the device at position tile_devices[0] holds everything, the others nothing
    kTiled,
    kConcrete,  // shard_shapes[i] is on devices[i]; places in a whole aren't known
  };
  Kind kind = Kind::kReplicated;
  std::vector<DeviceId> devices;      // by shard position; for a program's sharding: by rank
  std::vector<int64_t> tile_dims;     // kTiled
  std::vector<int64_t> tile_devices;  // kTiled, kMaximal: positions in `devices`
  int replicated_trailing_dims = 0;   // kTiled: how many trailing tile_dims are replication (or manual) groups
  std::vector<std::vector<int64_t>> shard_shapes;  // kConcrete
  std::string memory_kind;                         // empty: the device's default
  // The client's own bytes (ShardingProto), passed back unread where it expects what it sent. May be empty.
  std::string wire;

  int num_shards() const { return static_cast<int>(devices.size()); }
  bool IsFullyReplicated() const { return kind == Kind::kReplicated || kind == Kind::kSingleDevice; }
};

// Checks that the tile assignment is a permutation of the devices and fits the rank.
absl::Status ValidateSharding(const Sharding& sharding, const Shape& shape);

// The shape of the shard at `position`; uneven cuts follow XLA (ceil division, the last ones smaller).
absl::StatusOr<Shape> ShardShape(const Sharding& sharding, const Shape& shape, int position);

// Where the shard at `position` lies in the whole array.
absl::StatusOr<Box> ShardBox(const Sharding& sharding, const Shape& shape, int position);

}  // namespace switchtower
