#include "controller/schedule/launch_policy.h"

#include <fmt/format.h>

#include "controller/schedule/policies/fifo_policy.h"
#include "controller/schedule/policies/pipeline_policy.h"
#include "controller/schedule/policies/priority_policy.h"
#include "controller/schedule/policies/share_policy.h"

namespace switchtower {

absl::StatusOr<std::unique_ptr<LaunchPolicy>> MakeLaunchPolicy(const std::string& name) {
  if (name == "fifo") return std::make_unique<FifoPolicy>();
  if (name == "priority") return std::make_unique<PriorityPolicy>();
  if (name == "share") return std::make_unique<SharePolicy>();
  if (name == "pipeline") return std::make_unique<PipelinePolicy>();
  return absl::InvalidArgumentError(
      fmt::format("there is no launch policy \"{}\"; it is one of {}", name, fmt::join(kLaunchPolicyNames, ", ")));
}

}  // namespace switchtower
