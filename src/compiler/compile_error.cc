#include "compiler/compile_error.h"

#include <string>
#include <string_view>

#include "absl/strings/ascii.h"

namespace switchtower {
namespace {

constexpr std::string_view kLossWords[] = {"DATA_LOSS", "INTERNAL", "NOT_FOUND", "UNAVAILABLE"};

absl::StatusCode CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
      return absl::StatusCode::kInvalidArgument;
    default:
      return code;
  }
}

}  // namespace

absl::Status AsCompileError(const absl::Status& status) {
  if (status.ok()) return status;
  std::string message(status.message().data(), status.message().size());
  for (std::string_view word : kLossWords) {
    for (size_t at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) {
      for (size_t i = at; i < at + word.size(); ++i) message[i] = absl::ascii_tolower(message[i]);
    }
  }
  return absl::Status(CodeOf(status.code()), message);
}

}  // namespace switchtower
