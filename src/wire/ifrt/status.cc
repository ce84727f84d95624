#include "wire/ifrt/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "base/utf8.h"

namespace switchtower {

void ToProto(const absl::Status& status, tensorflow::StatusProto* proto) {
  proto->set_code(static_cast<tensorflow::error::Code>(status.code()));
  proto->set_message(ToUtf8(std::string(status.message())));
  status.ForEachPayload([proto](absl::string_view url, const absl::Cord& value) {
    (*proto->mutable_payload())[ToUtf8(std::string(url))] = std::string(value);
  });
}

absl::Status FromProto(const tensorflow::StatusProto& proto) {
  const int number = proto.code();
  const absl::StatusCode code =
      tensorflow::error::Code_IsValid(number) ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown;
  absl::Status status(code, proto.message());
  for (const auto& [url, value] : proto.payload()) status.SetPayload(url, absl::Cord(value));
  return status;
}

}  // namespace switchtower
