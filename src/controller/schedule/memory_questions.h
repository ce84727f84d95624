// What arrays hold on a session's devices, asked of their workers.
//
// Place:    controller/schedule.
// Threads:  the home strand; `done` runs there.
// Invariants: Q-1 each question is answered once, however many workers answer or are lost meanwhile. One that is still
//           open when the home ends is dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/api/session.h"
#include "controller/cluster/cluster_view.h"

namespace switchtower {

class MemoryQuestions {
 public:
  // Devices that have lost their worker are left out of the answer. `limit`: bytes of each device, 0: not limited.
  void Ask(const ClusterView& view, std::vector<std::pair<DeviceId, Place>> devices, int64_t limit,
           Callback<std::vector<DeviceMemory>> done);
  void OnAnswer(const WorkerLink& link, const MemoryInUse& answer);
  void WorkerLost(const WorkerLinkPtr& link);

 private:
  struct Question {  // shared by its parts
    int64_t limit = 0;
    size_t remaining = 0;
    std::vector<DeviceMemory> answer;
    Callback<std::vector<DeviceMemory>> done;
  };
  struct Part {
    WorkerLinkPtr link;
    std::vector<std::pair<DeviceId, int32_t>> ordinals;  // of the worker's devices that were asked for
    std::shared_ptr<Question> question;
  };
  static void PartEnded(Question& question);

  absl::flat_hash_map<RequestId, Part> parts_;
  uint64_t last_id_ = 0;
};

}  // namespace switchtower
