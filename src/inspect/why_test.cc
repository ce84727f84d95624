#include "inspect/why.h"

#include <gmock/gmock.h>

#include "inspect/testing_why.h"

namespace switchtower {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(WhyTest, ARunningLaunch) {
  for (int worker : {0, 1}) {
    for (int device : {0, 1}) AddTask(worker, device, 7, true);
  }
  EXPECT_EQ(
      Why(),
      "session 00000000000000ab (ipv4:127.0.0.1:5) has waited 4.0 s for array 12\n"
      "  because array 12\n"
      "    because launch 7 of jit_step (train.py:31), sent 5.0 s ago, hasn't ended on slice s0 host 0, slice s1 "
      "host 0\n"
      "      because it runs on slice s0 host 0 device 0, slice s0 host 0 device 1, slice s1 host 0 device 0, slice "
      "s1 host 0 device 1, for 3.0 s\n");
}

TEST_F(WhyTest, TheCallSiteIsShownWhereItIsKnown) {
  home().mutable_in_flight(0)->set_call_site("loop.py:7");
  EXPECT_THAT(Why(), HasSubstr("jit_step (train.py:31), called at loop.py:7, sent"));
}

TEST_F(WhyTest, TheHeadOfAQueueWaitsForAnUploadAndATransfer) {
  for (int worker : {0, 1}) {
    for (int device : {0, 1}) {
      auto& task = AddTask(worker, device, 7, false);
      task.add_missing_arguments(worker);
    }
  }
  auto& upload = *home().mutable_workers(0)->mutable_activity()->add_uploads();
  upload.set_session(171);
  upload.set_array(10);
  upload.set_bytes_here(1024);
  upload.set_bytes_expected(4096);
  auto& transfer = *home().mutable_workers(1)->mutable_activity()->add_transfers();
  transfer.mutable_id()->set_epoch(1);
  transfer.mutable_id()->set_number(5);
  transfer.set_session(171);
  transfer.set_from(9);
  transfer.set_to(11);
  transfer.add_sources(100);
  transfer.set_bytes_missing(2048);
  const std::string why = Why("array 12");
  EXPECT_THAT(why, HasSubstr("waits for its arguments, for 3.0 s"));
  EXPECT_THAT(why, HasSubstr("because array 10\n        because the client has sent 1.0 KiB of its 4.0 KiB"));
  EXPECT_THAT(why, HasSubstr("transfer 5 to slice s1 host 0 device 0 waits for 2.0 KiB from slice s0 host 0"));
  EXPECT_THAT(why, HasSubstr("array 9 is there: its bytes are on their way"));
  home().mutable_workers(0)->set_silent_us(900'000);
  EXPECT_THAT(Why("array 12"), HasSubstr("because slice s0 host 0 doesn't answer"));
}

TEST_F(WhyTest, QueuedBehindAnotherLaunchOrACallOfTheClient) {
  for (int worker : {0, 1}) {
    for (int device : {0, 1}) {
      AddTask(worker, device, 6, true);
      home().mutable_workers(worker)->mutable_activity()->mutable_devices(device)->set_queued(1);
    }
  }
  Merge(R"pb(in_flight {
               id { epoch: 1 number: 6 }
               session: 171
               name: "jit_other"
               ranks { seat: 0 ordinal: 0 }
               open_seats: 0
             })pb");
  auto& call = *home().mutable_workers(0)->mutable_activity()->add_calls();
  call.mutable_launch()->set_epoch(1);
  call.mutable_launch()->set_number(6);
  call.set_callback(4);
  call.set_age_us(2'000'000);
  EXPECT_THAT(Why("device s0/0/0"), HasSubstr("launch 6 of jit_other"));
  EXPECT_THAT(Why(),
              AllOf(HasSubstr("behind launch 6"),
                    HasSubstr("on slice s0 host 0 device 0 it waits for the client's Python function 4, for 2.0 s")));
}

TEST_F(WhyTest, WorkThatIsntSent) {
  home().clear_in_flight();
  home().clear_waits();
  home().mutable_workers(1)->set_state(introspection::Worker::WAITING);
  auto& session = *home().mutable_sessions(0);
  auto& first = *session.add_queue();
  first.set_what("launch of jit_step");
  first.add_makes(12);
  first.set_waits_for("slice s1 host 0, where no worker has come in yet");
  auto& second = *session.add_queue();
  second.set_what("wait for arrays");
  second.add_uses(12);
  EXPECT_EQ(Why("session 00000000000000ab"),
            "session 00000000000000ab (ipv4:127.0.0.1:5) waits for no answer\n"
            "  because launch of jit_step is queued at the controller, place 1\n"
            "    because it waits for slice s1 host 0, where no worker has come in yet\n");
  EXPECT_THAT(Why("12"), HasSubstr("launch of jit_step is queued"));
}

TEST_F(WhyTest, CompilesAndSessionsThatOpen) {
  home().clear_waits();
  home().mutable_sessions(0)->set_compiles(2);
  home().mutable_sessions(0)->set_compile_age_us(3'000'000);
  home().add_opening("ipv4:127.0.0.1:9");
  EXPECT_EQ(Why(),
            "client ipv4:127.0.0.1:9 waits to open its session: no slice of a known size and type is there\n"
            "session 00000000000000ab (ipv4:127.0.0.1:5) has 2 programs compiled, for 3.0 s so far\n");
  home().mutable_sessions(0)->set_compiles_waiting(1);
  EXPECT_THAT(Why(), HasSubstr("has 2 programs compiled, for 3.0 s so far; 1 of them waits for a compiler\n"));
}

TEST_F(WhyTest, Targets) {
  EXPECT_THAT(Why("device 3"), HasSubstr("slice s1 host 0 device 1 is idle"));
  EXPECT_THAT(Why("s1/0/1"), HasSubstr("slice s1 host 0 device 1 is idle"));
  EXPECT_THAT(Why("array 99"), HasSubstr("array 99 is waited for by nothing here"));
  EXPECT_THAT(Why("session 00000000000000ff"), HasSubstr("there is no session 00000000000000ff"));
  EXPECT_THAT(Why("device 77"), HasSubstr("no session has a device"));
  EXPECT_THAT(Why("s9/0/0"), HasSubstr("no session has a device"));
  for (const char* unclear : {"colour red", "device s0/1", "session xyz", "array -", "a b c"}) {
    EXPECT_THAT(Why(unclear), HasSubstr("isn't something to ask about")) << unclear;
  }
}

TEST_F(WhyTest, NothingOfASnapshotIsTrusted) {
  // Ranks, arguments and seats that don't exist, a launch that waits for itself.
  Merge(R"pb(
    in_flight {
      id { epoch: 1 number: 8 }
      session: 171
      arguments: 13
      results: 13
      ranks { seat: 0 }
      open_seats: 0
      open_seats: 9
    }
    waits { session: 171 arrays: 13 open_seats: 77 }
    collectives {
      launch { epoch: 1 number: 8 }
      op_id: 1
      ranks_in: 55
      ranks_out: 66
      ranks_out: -1
      ranks_unknown: 77
    }
  )pb");
  auto& task = AddTask(0, 0, 8, false);
  task.add_missing_arguments(0);
  task.add_missing_arguments(4'000'000'000);
  EXPECT_THAT(Why(), HasSubstr("array 13, see above"));
}

TEST_F(WhyTest, SessionsOfOtherProxies) {
  snapshot_.Clear();
  introspection::RelayedSession* session = snapshot_.add_relayed();
  session->set_id(0xab);
  session->set_peer("ipv4:10.0.0.9:1");
  session->set_home("10.0.0.7:29000");
  EXPECT_EQ(Why(),
            "session 00000000000000ab (ipv4:10.0.0.9:1) is at the proxy at 10.0.0.7:29000: ask it, with "
            "--target=grpc://10.0.0.7:29000\n");
  EXPECT_EQ(Why("session 00000000000000ab"), Why());
}

}  // namespace
}  // namespace switchtower
