#include "hlo/host_callbacks.h"

#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace switchtower {

std::vector<std::string> HostCallbackTargets() {
  return {host_callback_target::kWhole, host_callback_target::kPartitioned};
}

bool IsHostCallback(const xla::HloInstructionProto& instruction) {
  return instruction.opcode() == "custom-call" &&
         (instruction.custom_call_target() == host_callback_target::kWhole ||
          instruction.custom_call_target() == host_callback_target::kPartitioned);
}

absl::StatusOr<uint64_t> HostCallbackOf(const xla::HloInstructionProto& instruction) {
  // {index = 7 : ui64}
  absl::string_view text = absl::StripAsciiWhitespace(instruction.backend_config());
  uint64_t index = 0;
  if (instruction.custom_call_api_version() != xla::API_VERSION_TYPED_FFI || !absl::ConsumePrefix(&text, "{") ||
      !absl::ConsumeSuffix(&text, "}") || !absl::ConsumePrefix(&text, absl::StrCat(kHostCallbackIndex, " = ")) ||
      !absl::ConsumeSuffix(&text, " : ui64") || !absl::SimpleAtoi(text, &index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("host callback ", instruction.name(), " doesn't carry the one attribute index, an ui64"));
  }
  return index;
}

std::vector<uint64_t> HostCallbacksIn(const xla::HloModuleProto& module) {
  std::set<uint64_t> callbacks;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation.instructions()) {
      if (!IsHostCallback(instruction)) continue;
      if (absl::StatusOr<uint64_t> callback = HostCallbackOf(instruction); callback.ok()) callbacks.insert(*callback);
    }
  }
  return {callbacks.begin(), callbacks.end()};
}

}  // namespace switchtower
