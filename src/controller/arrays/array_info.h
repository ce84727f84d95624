// What the controller knows of a logical array.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "controller/api/session.h"
#include "controller/cluster/loss_ledger.h"
#include "controller/cluster/place.h"

namespace switchtower {

// The parts that don't change, shared by all arrays that a program or a request makes alike.
struct ArrayInfo {
  ArraySpec spec;
  DeviceListPtr devices;  // the sharding's devices as places
};
using ArrayInfoPtr = std::shared_ptr<const ArrayInfo>;

// No state per shard: values and errors live in the workers' stores. What is here makes the whole array an
// error (a request that failed before anything was sent) or tells whether a lost worker took a shard along.
struct LogicalArray {
  ArrayInfoPtr info;          // null only with an error
  uint64_t user_context = 0;  // of the request that made it
  uint64_t launch = 0;        // of its session, that makes it; 0: something else does
  LossLedger::Stamp stamp = 0;
  absl::Status error;
  bool deleted = false;
  const char* deleted_by = "";  // "deleted" or "donated", for the message
  bool on_workers = false;      // their stores may have entries of it
  uint64_t mark = 0;            // scratch of one request: was it named before?
};

// Adds the user context of the guilty request, which the client turns into a Python stack, unless an earlier
// one is there already.
absl::Status WithUserContext(absl::Status status, uint64_t user_context);

}  // namespace switchtower
