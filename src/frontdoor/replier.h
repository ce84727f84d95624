// How a request is answered: exactly once, from any thread, in any order.
//
// Place:    frontdoor; below the handlers.
// Threads:  everything from any thread.
// Lifetime: a Replier may outlive its stream; its answer is then dropped.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "frontdoor/user_context_table.h"
#include "xla/python/ifrt_proxy/common/ifrt_service.pb.h"

namespace switchtower {

using xla::ifrt::proxy::IfrtRequest;
using xla::ifrt::proxy::IfrtResponse;

// Where responses go: the stream's queue, or a test.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void Send(IfrtResponse response) = 0;
};

// What every handler knows of its request.
struct RequestContext {
  uint64_t op_id = 0;
  uint64_t user_context = 0;
  // Keeps the user context for as long as somebody may name it because of this request.
  UserContextTable::Ref context_ref = nullptr;
  // The client lets go of the answer at once, so that it may carry a number (U-2).
  bool numbered = false;
};

// `status` with the user context of the request, unless it names a guiltier one already.
absl::Status AttachUserContext(absl::Status status, uint64_t user_context);

class Replier {
 public:
  Replier(std::weak_ptr<ReplySink> sink, RequestContext context, std::shared_ptr<UserContextTable> user_contexts)
      : sink_(std::move(sink)), context_(std::move(context)), user_contexts_(std::move(user_contexts)) {}

  // `response` has its oneof set, even if the message in it is empty: the client insists.
  void Ok(IfrtResponse response) const;
  void Fail(const absl::Status& status) const;
  // Without the user context, for requests whose errors the client raises where they were called: it prints the
  // payload of these as it came.
  void FailTheCall(const absl::Status& status) const;
  // Ok or Fail.
  void Done(const absl::Status& status, IfrtResponse response) const;

 private:
  void SendError(const absl::Status& status) const;

  std::weak_ptr<ReplySink> sink_;
  RequestContext context_;
  std::shared_ptr<UserContextTable> user_contexts_;
};

}  // namespace switchtower
