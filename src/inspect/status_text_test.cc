#include "inspect/status_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "inspect/testing_why.h"

namespace switchtower {
namespace {

using introspection::Snapshot;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

using StatusTextTest = WhyTest;

TEST_F(StatusTextTest, StatusAndTopShowTheSame) {
  AddTask(0, 0, 7, true);
  home().mutable_workers(1)->set_silent_us(2'000'000);
  EXPECT_THAT(StatusText(snapshot_), AllOf(HasSubstr("slice s0 host 0"), HasSubstr("silent 2.0 s"),
                                           HasSubstr("00000000000000ab"), HasSubstr("1 array, 4.0 s")));
  Snapshot later = snapshot_;
  later.set_time_us(snapshot_.time_us() + 2'000'000);
  later.mutable_homes(0)->mutable_workers(0)->mutable_activity()->mutable_devices(0)->set_busy_ns(1'000'000'000);
  later.mutable_homes(0)->set_launches(10);
  EXPECT_THAT(TopText(snapshot_, later), AllOf(HasSubstr("5.0 launches/s"), HasSubstr("50%"),
                                               HasSubstr("jit_step 7 runs 3.0 s"), HasSubstr("silent 2.0 s")));
}

TEST_F(StatusTextTest, CompilesAndSessionsThatOpen) {
  home().clear_waits();
  home().mutable_sessions(0)->set_compiles(2);
  home().mutable_sessions(0)->set_compile_age_us(3'000'000);
  home().add_opening("ipv4:127.0.0.1:9");
  EXPECT_THAT(StatusText(snapshot_), AllOf(HasSubstr("(opens)"), HasSubstr("2 compiles, 3.0 s")));
}

TEST_F(StatusTextTest, TellsWhoseEachSliceAndSessionIs) {
  snapshot_.Clear();
  introspection::RelayedSession* session = snapshot_.add_relayed();
  session->set_id(0xab);
  session->set_peer("ipv4:10.0.0.9:1");
  session->set_home("10.0.0.7:29000");
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    introspection::Slice* slice = snapshot_.add_slices();
    slice->set_name(fmt::format("s{}", epoch));
    slice->set_home_epoch(epoch);
    slice->set_shared(epoch == 1);
  }
  snapshot_.mutable_slices(1)->set_home_door("10.0.0.7:29000");
  snapshot_.add_homes()->set_epoch(3);
  EXPECT_THAT(StatusText(snapshot_),
              AllOf(ContainsRegex("s0 .* -\n"), ContainsRegex("s1 .* 10.0.0.7:29000, shared\n"),
                    ContainsRegex("s2 .* another proxy, exclusive\n"), ContainsRegex("s3 .* this proxy, exclusive\n"),
                    ContainsRegex("00000000000000ab  ipv4:10.0.0.9:1 +grpc://10.0.0.7:29000\n")));
}

}  // namespace
}  // namespace switchtower
