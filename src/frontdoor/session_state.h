// What the request handlers of one session share.
//
// Threads:  on the session's strand, except what is behind a shared_ptr: that is safe on any thread, and
//           callbacks of the controller hold it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "controller/api/session.h"
#include "frontdoor/future_table.h"
#include "frontdoor/host_buffer_store.h"
#include "frontdoor/plugin_programs.h"
#include "frontdoor/replier.h"
#include "frontdoor/user_context_table.h"
#include "wire/ifrt/sharding.h"
#include "wire/ifrt/versions.h"

namespace switchtower {

struct SessionState {
  Session& session;
  const ProxyVersion version;
  const DeviceSet devices;
  const std::shared_ptr<HostBufferStore> buffers;
  const std::string agent_token;
  const std::shared_ptr<UserContextTable> user_contexts = std::make_shared<UserContextTable>();
  // For CheckFuture: executables, deletions, and executions before protocol 21.
  const std::shared_ptr<FutureTable> futures = std::make_shared<FutureTable>();
  // For FetchExecuteResult.
  const std::shared_ptr<FutureTable> results = std::make_shared<FutureTable>();
  PluginPrograms plugin_programs = PluginPrograms(session);
  // Deleted by request and not yet destructed.
  absl::flat_hash_set<uint64_t> deleted_executables = {};
};

}  // namespace switchtower
