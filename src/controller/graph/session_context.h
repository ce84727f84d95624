// What the handlers of one session's requests share: its devices, arrays and programs, and the way to the
// sequencer.
//
// Threads:  the session's strand.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "controller/arrays/array_table.h"
#include "controller/arrays/device_table.h"
#include "controller/programs/program_table.h"
#include "controller/schedule/home_port.h"
#include "controller/schedule/session_flow.h"

namespace switchtower {

struct SessionContext {
  SessionContext(SessionId id, DeviceTable devices, std::shared_ptr<HomePort> home)
      : id(id), devices(std::move(devices)), home(std::move(home)), arrays(this->home->losses()) {}

  template <typename Body>
  void Submit(Body body, LossLedger::Stamp stamp, uint64_t user_context) {
    home->Submit(Op{id, stamp, user_context, std::move(body)});
  }
  LossLedger::Stamp now() const { return arrays.losses().now(); }

  // Binds each result that isn't bound to `error`, with the request's context, and returns the error.
  absl::Status BindErrors(absl::Span<const ArrayId> results, absl::Status error, uint64_t user_context);
  // All of a request's results must be new and different.
  absl::Status CheckResults(absl::Span<const ArrayId> results) const;
  uint64_t NewHandle() { return next_handle.fetch_add(1, std::memory_order_relaxed); }

  const SessionId id;
  DeviceTable devices;
  const std::shared_ptr<HomePort> home;
  ArrayTable arrays;
  ExecutableTable programs;
  const std::shared_ptr<SessionFlow> flow = std::make_shared<SessionFlow>();
  std::atomic<uint64_t> next_handle{uint64_t{1} << 48};
  uint64_t last_mark = 0;
  uint64_t last_launch = 0;
};

}  // namespace switchtower
