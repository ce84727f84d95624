// What a session hands to the sequencer: operations as values, in the session's order.
//
// Places are seats of a lease, never workers (S-1): which worker sits there is decided when the operation is
// sent. `stamp` is the loss ledger's at the moment the session checked the operation's arrays: a seat that lost
// its worker since then makes the operation fail.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/api/session.h"
#include "controller/cluster/loss_ledger.h"
#include "controller/cluster/place.h"
#include "controller/programs/placed_program.h"
#include "controller/schedule/session_launches.h"
#include "types/ids.h"

namespace switchtower {

// The sequencer's input for a launch; it becomes worker_api's Launch with its id, in its place.
struct LaunchOp {
  uint64_t number = 0;  // among its session's
  PlacedProgramPtr program;
  std::vector<ArrayId> arguments;
  std::vector<ArrayId> results;
  std::vector<uint32_t> donated;
  int32_t client_launch_id = 0;
  std::string call_site;             // in the client, if it tells
  Callback<absl::Status> on_status;  // may be null
  bool awaited = false;              // see worker_api's; the sequencer's guess
};

struct PutOp {
  struct Shard {
    std::vector<Place> places;
    Shape shape;
    std::optional<std::vector<int64_t>> byte_strides;
    std::shared_ptr<HostBuffer> buffer;
    int64_t bytes = -1;  // what the buffer must hold; -1: any (strings)
  };
  ArrayId array;
  DeviceListPtr devices;
  std::vector<Shard> shards;
  Layout layout;
  std::string memory_kind;
};

struct BindOp {
  struct Binding {
    ArrayId from;
    ArrayId to;
    Place place;
  };
  std::vector<Binding> bindings;
  DeviceListPtr devices;  // all places concerned
};

struct TransferOp {
  struct Destination {
    Place place;
    Shape shard_shape;
  };
  struct Piece {
    Place source;
    Place destination;
    Box source_box;
    Box destination_box;
  };
  ArrayId from;
  ArrayId to;
  std::vector<int32_t> source_seats;  // that pieces come from
  DeviceListPtr destination_devices;  // of the whole array `to`
  std::vector<Destination> destinations;
  std::vector<Piece> pieces;
  Layout layout;
  std::string memory_kind;
};

struct ReadOp {
  ArrayId array;
  Place place;
  std::optional<std::vector<int64_t>> byte_strides;
  // Chunks in order, then the end, on the home strand.
  absl::AnyInvocable<void(HostBuffer::Chunk)> on_chunk;
  Callback<absl::Status> on_end;
};

struct ReadyOp {
  struct Group {
    DeviceListPtr devices;
    std::vector<ArrayId> arrays;
  };
  std::vector<Group> groups;
  uint64_t launch = 0;              // the session's number of the one that makes all of them; 0: there is no such
  SessionLaunches::Standing maker;  // of that launch; the sequencer's, when it sends this
  Callback<absl::Status> done;
};

struct DeleteOp {
  struct Group {
    DeviceListPtr devices;
    LossLedger::Stamp stamp = 0;  // of the arrays: what went down with a worker needs no delete
    std::vector<ArrayId> arrays;
  };
  std::vector<Group> groups;
};

// An executable of the session came or went.
struct RetainOp {
  PlacedProgramPtr program;
};
struct ReleaseOp {
  PlacedProgramPtr program;
};

struct Op {
  SessionId session;
  LossLedger::Stamp stamp = 0;
  uint64_t user_context = 0;
  std::variant<LaunchOp, PutOp, BindOp, TransferOp, ReadOp, ReadyOp, DeleteOp, RetainOp, ReleaseOp> body;
};

}  // namespace switchtower
