// A plug-in program, the JSON in which a client asks for a reshard: what parses names known devices, and its shardings
// are valid for the arrays that they let pass.
//
// The input is the JSON, or the message that it is made of.
#include <google/protobuf/util/json_util.h>

#include <string>

#include "base/check.h"
#include "switchtower/plugin_program.pb.h"
#include "tests/fuzz/proto_target.h"
#include "wire/ifrt/plugin_program.h"

namespace switchtower::fuzz {
namespace {

void CheckSharding(const PlacedSharding& placed, const Shape& shape) {
  const auto sharding = ToSharding(placed, shape);
  if (!sharding.ok()) return;
  CHECK(ValidateSharding(*sharding, shape).ok());
  for (int i = 0; i < sharding->num_shards(); ++i) CHECK(ShardShape(*sharding, shape, i).ok());
}

void RunText(const std::string& text) {
  DeviceSet known;
  for (uint64_t id = 0; id < 8; ++id) known.insert(DeviceId{id});
  const auto program = ParsePluginProgram(text, known);
  if (!program.ok()) return;
  CHECK(!program->from.empty() && program->from.size() == program->to.size());
  for (const auto* side : {&program->from, &program->to}) {
    for (const PlacedSharding& placed : *side) {
      for (DeviceId device : placed.devices) CHECK(known.contains(device));
      CheckSharding(placed, Shape{DType::kF32, {}});
      CheckSharding(placed, Shape{DType::kF32, {8}});
      CheckSharding(placed, Shape{DType::kS8, {7, 6}});
    }
  }
}

void Run(const plugin::Program& input) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(input, &json).ok()) return;
  RunText("__serialized_plugin_program " + json);
}

}  // namespace
}  // namespace switchtower::fuzz

std::unique_ptr<google::protobuf::Message> switchtower::fuzz::NewInput() {
  return std::make_unique<switchtower::plugin::Program>();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  switchtower::fuzz::RunOnMessage<switchtower::plugin::Program>(data, size, switchtower::fuzz::Run);
  switchtower::fuzz::RunText({reinterpret_cast<const char*>(data), size});
  return 0;
}
