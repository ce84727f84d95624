// Waiting for arrays and futures. The answers come when the values are there.
#include "frontdoor/handlers.h"
#include "frontdoor/request_parts.h"

namespace switchtower {

using namespace xla::ifrt::proxy;  // NOLINT: request and response messages only

void HandleCheckFuture(SessionState& state, const RequestContext& context, CheckFutureRequest& request,
                       const Replier& replier) {
  state.futures->Take(request.future_handle(), [replier](absl::Status status) {
    IfrtResponse response;
    response.mutable_check_future_response();
    replier.Done(status, std::move(response));
  });
}

void HandleCheckValueReady(SessionState& state, const RequestContext& context, CheckValueReadyRequest& request,
                           const Replier& replier) {
  state.session.WhenReady(ArrayIds(request.value_handles()), [replier](absl::Status status) {
    IfrtResponse response;
    response.mutable_check_value_ready_response();
    replier.Done(status, std::move(response));
  });
}

void HandleLoadedExecutableFetchExecuteResult(SessionState& state, const RequestContext& context,
                                              LoadedExecutableFetchExecuteResultRequest& request,
                                              const Replier& replier) {
  state.results->Take(request.result_status_handle(), [replier](absl::Status status) {
    IfrtResponse response;
    // Device times would be of a TPU or GPU; the message is there without them.
    response.mutable_loaded_executable_fetch_execute_result_response();
    replier.Done(status, std::move(response));
  });
}

}  // namespace switchtower
