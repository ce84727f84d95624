// An HLO module, on its way from the capture to code generation: check, description, text, lowering.
//
// What was lowered passes the checks of a program without collectives, but for the calls that lowering put in.
#include <string>
#include <utility>

#include "base/check.h"
#include "hlo/check_module.h"
#include "hlo/hlo_text.h"
#include "hlo/host_callbacks.h"
#include "hlo/lower_collectives.h"
#include "hlo/program_info.h"
#include "tests/fuzz/proto_target.h"

namespace switchtower::fuzz {
namespace {

void Run(const xla::HloModuleProto& input) {
  ModuleRules rules;
  rules.num_partitions = 4;
  CHECK(!ModuleText(input).empty());
  (void)DescribeProgram(input, rules.num_partitions);
  const bool passes = CheckModule(input, rules).ok();
  if (passes) (void)HostCallbacksIn(input);
  auto lowered = LowerCollectives(input, rules);
  if (!lowered.ok()) return;
  CHECK(passes);
  for (const auto& computation : lowered->module.computations()) {
    for (const auto& instruction : computation.instructions()) CHECK(!IsCollective(instruction.opcode()));
  }
  (void)ModuleText(lowered->module);
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(xla::HloModuleProto, switchtower::fuzz::Run)
