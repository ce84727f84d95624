#include "compiler/stub_handlers.h"

#include <iterator>

#include "base/status_macros.h"
#include "hlo/collective_calls.h"
#include "hlo/native_calls.h"
#include "xla/ffi/api/ffi.h"

namespace switchtower {
namespace {

xla::ffi::Error Refuse(xla::ffi::RemainingArgs, xla::ffi::RemainingRets, xla::ffi::Dictionary) {
  return xla::ffi::Error(xla::ffi::ErrorCode::kUnimplemented, "a compiler process runs no programs");
}

XLA_FFI_DEFINE_HANDLER(kRefuse, Refuse, xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs());

}  // namespace

absl::Status RegisterStubHandlers(pjrt::Plugin& plugin, const std::vector<std::string>& targets) {
  for (const std::string& target : targets) {
    RETURN_IF_ERROR(plugin.RegisterFfiHandler(target, "Host", reinterpret_cast<void*>(kRefuse)));
  }
  return absl::OkStatus();
}

std::vector<std::string> CollectiveTargets() {
  namespace target = collective_target;
  return {target::kAllReduce,     target::kReduceScatter,     target::kAllGather,           target::kAllToAll,
          target::kAllToAllArray, target::kCollectivePermute, target::kCollectiveBroadcast, target::kRaggedAllToAll,
          target::kPartitionId};
}

std::vector<std::string> NativeTargets() { return {std::begin(kNativeCalls), std::end(kNativeCalls)}; }

}  // namespace switchtower
