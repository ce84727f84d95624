// A client's compile options: what passes has devices that make sense, and none of what it drops or refuses is in the
// options that XLA gets.
#include <string>

#include "base/check.h"
#include "compiler/options.h"
#include "tests/fuzz/proto_target.h"

namespace switchtower::fuzz {
namespace {

void Run(const xla::CompileOptionsProto& input) {
  const auto client = ParseClientOptions(input.SerializeAsString());
  if (!client.ok()) return;
  CHECK(client->num_partitions >= 1);
  CHECK(client->device_ids.empty() || static_cast<int32_t>(client->device_ids.size()) == client->num_partitions);
  // What was allowed once is allowed again, and means the same.
  const auto again = ParseClientOptions(CaptureOptions(*client));
  CHECK(again.ok());
  CHECK(CanonicalBytes(*again) == CanonicalBytes(*client));
  CHECK(!SinglePassOptions(*client).empty());
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(xla::CompileOptionsProto, switchtower::fuzz::Run)
