// How a request is answered: exactly once, from any thread, in any order.
//
// Place:    frontdoor; below the handlers.
// Threads:  everything from any thread.
// Lifetime: a Replier may outlive its stream; its answer is then dropped.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
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
};

// `status` with the user context of the request, unless it names a guiltier one already.
absl::Status AttachUserContext(absl::Status status, uint64_t user_context);

class Replier {
 public:
  Replier(std::weak_ptr<ReplySink> sink, RequestContext context) : sink_(std::move(sink)), context_(context) {}

  // `response` has its oneof set, even if the message in it is empty: the client insists.
  void Ok(IfrtResponse response) const;
  void Fail(const absl::Status& status) const;
  // Ok or Fail.
  void Done(const absl::Status& status, IfrtResponse response) const;

 private:
  std::weak_ptr<ReplySink> sink_;
  RequestContext context_;
};

}  // namespace switchtower
