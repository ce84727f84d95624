#include "wire/ifrt/plugin_program.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <string_view>

#include <fmt/format.h>

#include "absl/strings/escaping.h"
#include "base/status_macros.h"
#include "switchtower/plugin_program.pb.h"
#include "wire/ifrt/op_sharding.h"

namespace switchtower {
namespace {

constexpr std::string_view kPrefix = "__serialized_plugin_program ";
constexpr size_t kNameBytesMax = 80;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("Bad PluginProgram: " + what); }

absl::Status ParseJson(std::string_view json, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), message, options);
  return parsed.ok() ? absl::OkStatus() : Bad("its JSON can't be read: " + std::string(parsed.message()));
}

// The one field of the whole object says what the program is.
absl::Status CheckKind(std::string_view json) {
  google::protobuf::Struct object;
  RETURN_IF_ERROR(ParseJson(json, &object));
  if (object.fields_size() != 1) return Bad(fmt::format("it has {} requests instead of one", object.fields_size()));
  const std::string& name = object.fields().begin()->first;
  if (name == "reshardRequest" || name == "reshard_request") return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("this server doesn't run the plug-in program \"{}\", of those only \"reshardRequest\"",
                  std::string(absl::CHexEscape(name.substr(0, kNameBytesMax)))));
}

absl::StatusOr<std::vector<PlacedSharding>> FromProtos(
    const google::protobuf::RepeatedPtrField<plugin::PlacedSharding>& protos, const DeviceSet& known) {
  std::vector<PlacedSharding> placed;
  for (const plugin::PlacedSharding& proto : protos) {
    const auto& ids = proto.devices().device_ids();
    PlacedSharding& each = placed.emplace_back();
    ASSIGN_OR_RETURN(each.devices, ParseDevices(ids.data(), ids.size(), known));
    if (each.devices.empty()) return Bad("a sharding has no devices");
    if (!each.op_sharding.ParseFromString(proto.xla_hlo_sharding())) return Bad("a sharding doesn't parse");
    each.memory_kind = proto.memory_kind();
  }
  return placed;
}

}  // namespace

absl::StatusOr<ReshardProgram> ParsePluginProgram(const std::string& data, const DeviceSet& known) {
  std::string_view json = data;
  if (json.substr(0, kPrefix.size()) != kPrefix) return Bad("it doesn't begin as one");
  json.remove_prefix(kPrefix.size());
  RETURN_IF_ERROR(CheckKind(json));
  plugin::Program proto;
  RETURN_IF_ERROR(ParseJson(json, &proto));
  const plugin::ReshardRequest& reshard = proto.reshard_request();
  ReshardProgram program;
  program.donate = reshard.donate_input();
  ASSIGN_OR_RETURN(program.from, FromProtos(reshard.in_sharding(), known));
  ASSIGN_OR_RETURN(program.to, FromProtos(reshard.out_sharding(), known));
  if (program.from.empty() || program.from.size() != program.to.size()) {
    return Bad(fmt::format("a reshard needs one sharding before and one after for each array, there are {} and {}",
                           program.from.size(), program.to.size()));
  }
  return program;
}

absl::StatusOr<Sharding> ToSharding(const PlacedSharding& placed, const Shape& shape) {
  return FromOpSharding(placed.op_sharding, placed.devices, placed.memory_kind, shape);
}

}  // namespace switchtower
