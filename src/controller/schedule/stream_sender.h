// Passes a client's host bytes on to the workers that make arrays of them, chunk by chunk, as they come.
//
// Place:    controller/schedule.
// Threads:  Start on the home strand; chunks arrive on any thread and are posted there. All workers get the same
//           chunk object: nothing is copied or encoded per worker.
// Errors:   a buffer of another size than announced, or one that ended early, ends the stream with that error:
//           the arrays made from it become it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "controller/api/session.h"
#include "controller/cluster/cluster_view.h"
#include "controller/cluster/poster.h"

namespace switchtower {

class StreamSender {
 public:
  struct Options {
    StreamId stream;
    int64_t bytes = -1;  // what must arrive; -1: any number
    uint32_t uses = 1;   // PutArray commands that name the stream
    uint64_t user_context = 0;
    std::vector<WorkerLinkPtr> links;
    std::shared_ptr<Poster> poster;
  };
  static void Start(Options options, HostBuffer& buffer);
};

}  // namespace switchtower
