// A plug-in program, the JSON in which a client asks for a reshard: what parses names known devices, and its shardings
// are valid for the arrays that they let pass.
#include <string>

#include "base/check.h"
#include "google/protobuf/stubs/logging.h"
#include "wire/ifrt/plugin_program.h"

namespace switchtower::fuzz {
namespace {

void Run(const std::string& input) {
  DeviceSet known;
  for (uint64_t id = 0; id < 8; ++id) known.insert(DeviceId{id});
  const auto program = ParsePluginProgram(input, known);
  if (!program.ok()) return;
  CHECK(!program->from.empty() && program->from.size() == program->to.size());
  for (const auto* placed : {&program->from, &program->to}) {
    for (const PlacedSharding& each : *placed) {
      for (DeviceId device : each.devices) CHECK(known.contains(device));
      for (const Shape& shape : {Shape{DType::kF32, {}}, Shape{DType::kF32, {8}}, Shape{DType::kS8, {0, 5}}}) {
        const auto sharding = ToSharding(each, shape);
        if (!sharding.ok()) continue;
        CHECK(ValidateSharding(*sharding, shape).ok());
        CHECK(ShardShape(*sharding, shape, sharding->num_shards() - 1).ok());
      }
    }
  }
}

}  // namespace
}  // namespace switchtower::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer quiet;
  switchtower::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
