// Launches whose ranks wait for each other.
#include <gmock/gmock.h>

#include "inspect/testing_why.h"

namespace switchtower {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(WhyTest, ACollectiveNamesWhoIsInAndWhatTheOthersDo) {
  for (int device : {0, 1}) AddTask(0, device, 7, true);
  AddTask(1, 0, 7, true);
  AddTask(1, 1, 6, true);
  Merge(R"pb(
    in_flight {
      id { epoch: 1 number: 6 }
      session: 171
      name: "jit_other"
      ranks { seat: 1 ordinal: 1 }
      open_seats: 1
    }
    collectives {
      launch { epoch: 1 number: 7 }
      op_id: 3
      kind: "all-reduce"
      name: "psum.4"
      source: "model.py:44"
      age_us: 2500000
      ranks_in: 0
      ranks_in: 1
      ranks_in: 2
      ranks_out: 3
    }
  )pb");
  const std::string why = Why();
  EXPECT_THAT(why, HasSubstr("all-reduce psum.4 (model.py:44): ranks 0-2 are in, for 2.5 s; rank 3 is not"));
  EXPECT_THAT(why, HasSubstr("rank 3 (slice s1 host 0 device 1) hasn't started the launch"));
  EXPECT_THAT(why, HasSubstr("because launch 6 of jit_other"));
  EXPECT_THAT(why, HasSubstr("it runs on slice s1 host 0 device 1"));
  EXPECT_THAT(why, Not(HasSubstr("it runs on slice s0")));  // those wait in the collective
}

TEST_F(WhyTest, AnAbsentRankThatRunsTheLaunch) {
  for (int device : {0, 1}) AddTask(0, device, 7, true);
  for (int device : {0, 1}) AddTask(1, device, 7, true);
  home().mutable_workers(1)->mutable_activity()->add_fault_points("collective.join:rank=3");
  Merge(R"pb(collectives {
               launch { epoch: 1 number: 7 }
               op_id: 3
               kind: "all-reduce"
               ranks_in: 0
               ranks_in: 1
               ranks_in: 2
               ranks_out: 3
             })pb");
  EXPECT_THAT(Why(),
              AllOf(HasSubstr("all-reduce op 3: ranks 0-2 are in"),
                    HasSubstr("rank 3 (slice s1 host 0 device 1) has run the launch for 3.0 s and hasn't come to "
                              "this operation; its worker has fault points: collective.join:rank=3")));
}

TEST_F(WhyTest, AnAbsentRankInAnotherOperation) {
  for (int worker : {0, 1}) {
    for (int device : {0, 1}) AddTask(worker, device, 7, true);
  }
  Merge(R"pb(
    collectives {
      launch { epoch: 1 number: 7 }
      op_id: 1
      kind: "all-reduce"
      ranks_in: 0
      ranks_in: 1
      ranks_out: 2
      ranks_out: 3
    }
    collectives {
      launch { epoch: 1 number: 7 }
      op_id: 2
      kind: "all-gather"
      ranks_in: 2
      ranks_in: 3
      ranks_out: 0
      ranks_out: 1
    }
  )pb");
  EXPECT_THAT(Why(), AllOf(HasSubstr("rank 2 (slice s1 host 0 device 0) waits in another operation"),
                           HasSubstr("all-gather op 2")));  // and it ends, although the two wait for each other
}

TEST_F(WhyTest, AnEngineTakesLaunchesAhead) {
  for (int worker : {0, 1}) {
    for (int device : {0, 1}) {
      AddTask(worker, device, 6, true);
      AddTask(worker, device, 7, true);  // given to the engine, which isn't at it yet
    }
  }
  Merge(R"pb(
    in_flight {
      id { epoch: 1 number: 6 }
      session: 171
      name: "jit_other"
      ranks { seat: 0 ordinal: 0 }
      ranks { seat: 0 ordinal: 1 }
      ranks { seat: 1 ordinal: 0 }
      ranks { seat: 1 ordinal: 1 }
      open_seats: 0
      open_seats: 1
    }
    collectives {
      launch { epoch: 1 number: 6 }
      op_id: 2
      kind: "all-reduce"
      ranks_in: 0
      ranks_in: 1
      ranks_in: 2
      ranks_out: 3
    }
  )pb");
  const std::string why = Why();
  EXPECT_THAT(why, HasSubstr("behind launch 6\n        because launch 6 of jit_other"));
  EXPECT_THAT(why, HasSubstr("rank 3 (slice s1 host 0 device 1) has run the launch for 3.0 s"));
  EXPECT_THAT(why, Not(HasSubstr("it runs on")));
}

TEST_F(WhyTest, ASilentWorker) {
  for (int device : {0, 1}) AddTask(0, device, 7, true);
  home().mutable_workers(1)->set_silent_us(1'200'000);
  Merge(R"pb(collectives {
               launch { epoch: 1 number: 7 }
               op_id: 3
               kind: "all-reduce"
               ranks_in: 0
               ranks_in: 1
               ranks_unknown: 2
               ranks_unknown: 3
             })pb");
  EXPECT_THAT(Why(), AllOf(HasSubstr("because slice s1 host 0 doesn't answer (for 1.2 s so far)"),
                           HasSubstr("of 2-3 nothing is known"),
                           HasSubstr("ranks 2-3: slice s1 host 0 isn't there, see above")));
}

}  // namespace
}  // namespace switchtower
