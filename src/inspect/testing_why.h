// A snapshot for tests to change, and what `why` says of it.
#pragma once

#include <string>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "inspect/why.h"
#include "switchtower/introspection_service.pb.h"

namespace switchtower {

// Two slices of one host with two devices; a client waits for array 12, which launch 7 on ranks 0..3 makes.
inline constexpr char kWaiting[] = R"pb(
  homes {
    epoch: 1
    workers {
      seat: 0
      id: 100
      name: "slice s0 host 0"
      state: UP
      num_devices: 2
      activity {
        devices {}
        devices {}
      }
    }
    workers {
      seat: 1
      id: 101
      name: "slice s1 host 0"
      state: UP
      num_devices: 2
      activity {
        devices {}
        devices {}
      }
    }
    sessions {
      id: 171
      peer: "ipv4:127.0.0.1:5"
      launches_in_flight: 1
      devices {
        id: 0
        place { seat: 0 ordinal: 0 }
      }
      devices {
        id: 3
        place { seat: 1 ordinal: 1 }
      }
    }
    in_flight {
      id { epoch: 1 number: 7 }
      session: 171
      name: "jit_step"
      source: "train.py:31"
      age_us: 5000000
      ranks { seat: 0 ordinal: 0 }
      ranks { seat: 0 ordinal: 1 }
      ranks { seat: 1 ordinal: 0 }
      ranks { seat: 1 ordinal: 1 }
      arguments: 10
      arguments: 11
      results: 12
      open_seats: 0
      open_seats: 1
    }
    waits { session: 171 arrays: 12 open_seats: 0 open_seats: 1 age_us: 4000000 }
  }
)pb";

class WhyTest : public testing::Test {
 protected:
  WhyTest() { EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kWaiting, &snapshot_)); }

  introspection::Home& home() { return *snapshot_.mutable_homes(0); }
  introspection::Activity::Task& AddTask(int worker, int device, uint64_t launch, bool running) {
    auto& task = *home().mutable_workers(worker)->mutable_activity()->mutable_devices(device)->add_tasks();
    task.mutable_launch()->set_epoch(1);
    task.mutable_launch()->set_number(launch);
    task.set_rank(worker * 2 + device);
    task.set_program(launch == 7 ? "jit_step" : "jit_other");
    task.set_running(running);
    task.set_age_us(3'000'000);
    return task;
  }
  void Merge(const std::string& text) {
    introspection::Home more;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &more));
    home().MergeFrom(more);
  }
  std::string Why(const std::string& target = "") {
    const auto report = ExplainWhy(snapshot_, target);
    return report.ok() ? WhyText(*report) : std::string(report.status().message());
  }

  introspection::Snapshot snapshot_;
};

}  // namespace switchtower
