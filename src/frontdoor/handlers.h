// The request handlers, one source file for each family of requests.
//
// Threads: on the session's strand. None of them blocks: what takes long is answered later through a Replier.
// Errors:  a returned status is the client's answer. Handlers with result handles have bound them to it.
#pragma once

#include "frontdoor/replier.h"
#include "frontdoor/session_state.h"
#include "xla/python/ifrt_proxy/common/ifrt_service.pb.h"

namespace switchtower {

#define ST_HANDLER_(Name)                                                       \
  absl::Status Handle##Name(SessionState& state, const RequestContext& context, \
                            const xla::ifrt::proxy::Name##Request& request,     \
                            xla::ifrt::proxy::Name##Response* response)
#define ST_ASYNC_HANDLER_(Name)                                                                                   \
  void Handle##Name(SessionState& state, const RequestContext& context, xla::ifrt::proxy::Name##Request& request, \
                    const Replier& replier)

// handle_init.cc
ST_HANDLER_(Init);

// handle_host_transfers.cc
ST_HANDLER_(MakeArrayFromHostBuffer);
ST_HANDLER_(MakeArraysFromHostBufferShards);
ST_HANDLER_(MakeErrorArrays);
ST_ASYNC_HANDLER_(CopyToHostBuffer);

// handle_arrays.cc
ST_HANDLER_(AssembleArrayFromSingleDeviceArrays);
ST_HANDLER_(DisassembleIntoSingleDeviceArrays);
ST_HANDLER_(FullyReplicatedShard);
ST_HANDLER_(CopyArrays);
ST_HANDLER_(RemapArrays);
ST_HANDLER_(ReshardArrays);
ST_HANDLER_(BitcastArrays);
ST_HANDLER_(DeleteArray);
ST_HANDLER_(IsArrayDeleted);
ST_HANDLER_(DestructArray);

// handle_programs.cc
ST_ASYNC_HANDLER_(Compile);
ST_HANDLER_(LoadedExecutableMetadata);
ST_HANDLER_(LoadedExecutableCostAnalysis);
ST_HANDLER_(LoadedExecutableHumanReadableProgramText);
ST_HANDLER_(LoadedExecutableDelete);
ST_HANDLER_(LoadedExecutableIsDeleted);
ST_HANDLER_(LoadedExecutableDestruct);

// handle_execute.cc
ST_HANDLER_(LoadedExecutableExecute);

// handle_futures.cc
ST_ASYNC_HANDLER_(CheckFuture);
ST_ASYNC_HANDLER_(CheckValueReady);
ST_ASYNC_HANDLER_(LoadedExecutableFetchExecuteResult);

// handle_misc.cc
ST_HANDLER_(GetDefaultLayout);
ST_HANDLER_(GetDefaultDeviceAssignment);
ST_HANDLER_(LoadedHostCallbackPoll);
ST_HANDLER_(LoadedHostCallbackReturn);

#undef ST_HANDLER_
#undef ST_ASYNC_HANDLER_

}  // namespace switchtower
