#include "worker/collective/move_algorithms.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "worker/collective/geometry.h"

namespace switchtower {
namespace {

// These do the work of the members m = part, part + parts, ...
template <typename Fn>
void ForMembers(const ExchangeView& view, int part, int parts, Fn fn) {
  for (size_t m = static_cast<size_t>(part); m < view.members.size(); m += static_cast<size_t>(parts)) {
    fn(static_cast<int>(m), view.members[m]);
  }
}

class OnePhase : public Algorithm {
 public:
  int phases(const CollectiveShape&, const GroupPlan&) const override { return 1; }
};

// A message holds the shards of all operands of each rank of the sender.
class AllGatherAlgorithm : public OnePhase {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    return CheckBlocks(shape, size, /*whole_operand=*/false,
                       /*whole_result=*/true);
  }

  absl::Status Gather(const ExchangeView& view, int, int, PieceList& pieces) const override {
    for (const MemberBuffers& member : view.members) {
      for (size_t k = 0; k < view.shape.operands.size(); ++k) {
        pieces.Add(member.operands[k], view.shape.outer[k] * view.shape.chunk_bytes[k]);
      }
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> ExpectedBytes(const CollectiveShape& shape, const GroupPlan& plan, int,
                                       int from) const override {
    return static_cast<int64_t>(plan.processes[from].positions.size()) * ShardBytes(shape);
  }

  absl::Status Apply(const ExchangeView& view, int, int part, int parts) const override {
    const GroupPlan& plan = view.plan;
    const CollectiveShape& shape = view.shape;
    const int64_t rank_bytes = ShardBytes(shape);
    ForMembers(view, part, parts, [&](int, const MemberBuffers& member) {
      int64_t offset = 0;
      for (size_t k = 0; k < shape.operands.size(); ++k) {
        const int64_t chunk = shape.chunk_bytes[k];
        for (int r = 0; r < plan.size(); ++r) {
          const int process = plan.process_of[r];
          const char* source = process == plan.self
                                   ? view.members[plan.index_of[r]].operands[k]
                                   : view.received[process].data() + plan.index_of[r] * rank_bytes + offset;
          CopyBlocks(member.results[k] + r * chunk, plan.size() * chunk, source, chunk, shape.outer[k], chunk);
        }
        offset += shape.outer[k] * chunk;
      }
    });
    return absl::OkStatus();
  }
};

// A message holds, for each rank of the sender, what goes to each rank of the receiver.
class AllToAllAlgorithm : public OnePhase {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    const auto count = static_cast<size_t>(size);
    if (shape.operands.size() != count || shape.results.size() != count) {
      return absl::InvalidArgumentError(fmt::format("all-to-all of {} ranks has {} operands and {} results", size,
                                                    shape.operands.size(), shape.results.size()));
    }
    for (size_t k = 0; k < count; ++k) {
      if (shape.operands[k].bytes() != shape.operands[0].bytes() ||
          shape.results[k].bytes() != shape.operands[0].bytes()) {
        return absl::InvalidArgumentError("all-to-all: operands and results differ in size");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Gather(const ExchangeView& view, int, int to, PieceList& pieces) const override {
    for (const MemberBuffers& member : view.members) {
      for (int position : view.plan.processes[to].positions) {
        pieces.Add(member.operands[position], view.shape.operands[0].bytes());
      }
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> ExpectedBytes(const CollectiveShape& shape, const GroupPlan& plan, int,
                                       int from) const override {
    return static_cast<int64_t>(plan.processes[from].positions.size()) * static_cast<int64_t>(plan.local().size()) *
           shape.operands[0].bytes();
  }

  absl::Status Apply(const ExchangeView& view, int, int part, int parts) const override {
    const GroupPlan& plan = view.plan;
    const int64_t bytes = view.shape.operands[0].bytes();
    const auto locals = static_cast<int64_t>(plan.local().size());
    ForMembers(view, part, parts, [&](int m, const MemberBuffers& member) {
      for (int r = 0; r < plan.size(); ++r) {
        const int process = plan.process_of[r];
        const char* source = process == plan.self
                                 ? view.members[plan.index_of[r]].operands[plan.local()[m]]
                                 : view.received[process].data() + (plan.index_of[r] * locals + m) * bytes;
        CopyBytes(member.results[r], source, bytes);
      }
    });
    return absl::OkStatus();
  }
};

class AllToAllArrayAlgorithm : public OnePhase {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    if (shape.operands.size() != 1) return absl::InvalidArgumentError("all-to-all of an array has one operand");
    return CheckBlocks(shape, size, /*whole_operand=*/true,
                       /*whole_result=*/true);
  }

  absl::Status Gather(const ExchangeView& view, int, int to, PieceList& pieces) const override {
    for (const MemberBuffers& member : view.members) {
      for (int position : view.plan.processes[to].positions) {
        AddChunks(member.operands[0], view.shape.outer[0], view.shape.chunk_bytes[0], view.plan.size(), position,
                  pieces);
      }
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> ExpectedBytes(const CollectiveShape& shape, const GroupPlan& plan, int,
                                       int from) const override {
    return static_cast<int64_t>(plan.processes[from].positions.size()) * static_cast<int64_t>(plan.local().size()) *
           ShardBytes(shape);
  }

  absl::Status Apply(const ExchangeView& view, int, int part, int parts) const override {
    const GroupPlan& plan = view.plan;
    const int64_t outer = view.shape.outer[0];
    const int64_t chunk = view.shape.chunk_bytes[0];
    const int64_t stride = plan.size() * chunk;
    const auto locals = static_cast<int64_t>(plan.local().size());
    ForMembers(view, part, parts, [&](int m, const MemberBuffers& member) {
      for (int r = 0; r < plan.size(); ++r) {
        const int process = plan.process_of[r];
        if (process == plan.self) {
          const char* source = view.members[plan.index_of[r]].operands[0] + plan.local()[m] * chunk;
          CopyBlocks(member.results[0] + r * chunk, stride, source, stride, outer, chunk);
        } else {
          const char* source = view.received[process].data() + (plan.index_of[r] * locals + m) * outer * chunk;
          CopyBlocks(member.results[0] + r * chunk, stride, source, chunk, outer, chunk);
        }
      }
    });
    return absl::OkStatus();
  }
};

// A message holds the operands of each source that some rank of the receiver copies from, once.
class PermuteAlgorithm : public OnePhase {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    if (shape.operands.empty() || shape.results.size() != shape.operands.size()) {
      return absl::InvalidArgumentError("collective-permute needs a result for each operand");
    }
    for (size_t k = 0; k < shape.operands.size(); ++k) {
      if (shape.operands[k].bytes() != shape.results[k].bytes()) {
        return absl::InvalidArgumentError("collective-permute: an operand and its result differ in size");
      }
    }
    for (int source : shape.source_of) {
      if (source < -1 || source >= size) return absl::InvalidArgumentError("collective-permute: no such source");
    }
    return shape.source_of.size() == static_cast<size_t>(size)
               ? absl::OkStatus()
               : absl::InvalidArgumentError("collective-permute needs a source or none for each rank");
  }

  bool Sends(const CollectiveShape& shape, const GroupPlan& plan, int, int to) const override {
    return !Sources(shape, plan, plan.self, to).empty();
  }
  bool Receives(const CollectiveShape& shape, const GroupPlan& plan, int, int from) const override {
    return !Sources(shape, plan, from, plan.self).empty();
  }

  absl::Status Gather(const ExchangeView& view, int, int to, PieceList& pieces) const override {
    for (int source : Sources(view.shape, view.plan, view.plan.self, to)) {
      for (size_t k = 0; k < view.shape.operands.size(); ++k) {
        pieces.Add(view.members[view.plan.index_of[source]].operands[k], view.shape.operands[k].bytes());
      }
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> ExpectedBytes(const CollectiveShape& shape, const GroupPlan& plan, int,
                                       int from) const override {
    return static_cast<int64_t>(Sources(shape, plan, from, plan.self).size()) * shape.operand_bytes();
  }

  absl::Status Apply(const ExchangeView& view, int, int part, int parts) const override {
    const GroupPlan& plan = view.plan;
    ForMembers(view, part, parts, [&](int m, const MemberBuffers& member) {
      const int source = view.shape.source_of[plan.local()[m]];
      const char* message = nullptr;
      if (source >= 0 && plan.process_of[source] != plan.self) {
        const int process = plan.process_of[source];
        const auto sources = Sources(view.shape, plan, process, plan.self);
        const auto index = std::find(sources.begin(), sources.end(), source) - sources.begin();
        message = view.received[process].data() + index * view.shape.operand_bytes();
      }
      for (size_t k = 0; k < view.shape.operands.size(); ++k) {
        const int64_t bytes = view.shape.operands[k].bytes();
        if (source < 0) {
          std::fill_n(member.results[k], bytes, '\0');
        } else if (message != nullptr) {
          CopyBytes(member.results[k], message, bytes);
          message += bytes;
        } else {
          CopyBytes(member.results[k], view.members[plan.index_of[source]].operands[k], bytes);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  // Positions in process `from` that some position in process `to` copies from, in the order of the first use.
  static absl::InlinedVector<int, 8> Sources(const CollectiveShape& shape, const GroupPlan& plan, int from, int to) {
    absl::InlinedVector<int, 8> sources;
    for (int position : plan.processes[to].positions) {
      const int source = shape.source_of[position];
      if (source < 0 || plan.process_of[source] != from) continue;
      if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
    }
    return sources;
  }
};

}  // namespace

const Algorithm& AllGather() {
  static const AllGatherAlgorithm algorithm;
  return algorithm;
}
const Algorithm& AllToAll() {
  static const AllToAllAlgorithm algorithm;
  return algorithm;
}
const Algorithm& AllToAllArray() {
  static const AllToAllArrayAlgorithm algorithm;
  return algorithm;
}
const Algorithm& Permute() {
  static const PermuteAlgorithm algorithm;
  return algorithm;
}

}  // namespace switchtower
