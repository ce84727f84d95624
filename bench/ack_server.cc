// A server of the IFRT proxy protocol that only acknowledges: any program is taken for one that gives its one scalar
// back, and nothing runs. What a client's launch costs against it is the client's own time.
//
//   ack_server DEVICES        tells its address in the first line and serves until its input ends
//
// The front door is the real one; behind it is the sessions' fake of the tests.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/abseil_locks.h"
#include "child_server.h"
#include "controller/api/fake_session.h"
#include "frontdoor/front_door.h"
#include "xla/xla_data.pb.h"

namespace switchtower::bench {
namespace {

// f32[] -> f32[], the same on all devices.
CompiledProgram ScalarProgram(int devices) {
  ProgramValue value;
  value.shape = value.shard_shape = Shape{DType::kF32, {}};
  value.layout = Layout::Default(0);
  value.memory_kind = "device";
  if (devices > 1) {
    xla::OpSharding sharding;
    sharding.set_type(xla::OpSharding::REPLICATED);
    value.op_sharding = sharding.SerializeAsString();
  }
  CompiledProgram program;
  program.info.name = "acknowledged";
  program.info.fingerprint = "acknowledged";
  program.info.num_partitions = devices;
  program.info.parameters = {value};
  program.info.results = {value};
  return program;
}

int Main(int devices) {
  FakeController controller(1, devices);
  controller.on_open = [devices](FakeSession& session) { session.AddProgram("", ScalarProgram(devices)); };
  absl::StatusOr<std::unique_ptr<FrontDoor>> door = FrontDoor::Start({}, controller);
  if (!door.ok()) {
    std::fprintf(stderr, "%s\n", door.status().ToString().c_str());
    return 1;
  }
  AnnounceAndServe("grpc://127.0.0.1:" + std::to_string((*door)->port()));
  return 0;
}

}  // namespace
}  // namespace switchtower::bench

int main(int argc, char** argv) {
  const int devices = argc == 2 ? std::atoi(argv[1]) : 0;
  if (devices < 1) {
    std::fprintf(stderr, "usage: ack_server DEVICES\n");
    return 1;
  }
  switchtower::DontCheckAbseilLocks();
  return switchtower::bench::Main(devices);
}
