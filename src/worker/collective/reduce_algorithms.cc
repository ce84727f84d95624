#include "worker/collective/reduce_algorithms.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "worker/collective/geometry.h"
#include "worker/collective/reduction.h"

namespace switchtower {
namespace {

using Buffers = absl::InlinedVector<CollectiveShape::Buffer, 4>;

absl::Status CheckReducers(const CollectiveShape& shape) {
  for (const auto& operand : shape.operands) {
    RETURN_IF_ERROR(FindReducer(operand.dtype, shape.reduction).status());
  }
  return absl::OkStatus();
}

// The elements of a buffer that process `p` of `count` owns.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
Range Cut(int64_t elements, int p, int count) { return {elements * p / count, elements * (p + 1) / count}; }

int64_t CutBytes(const Buffers& operands, int p, int count) {
  int64_t bytes = 0;
  for (const auto& operand : operands) {
    bytes += Cut(operand.elements, p, count).size() * HostBytes(operand.dtype);
  }
  return bytes;
}

class AllReduceAlgorithm : public Algorithm {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    if (shape.operands.empty() || shape.operands.size() != shape.results.size()) {
      return absl::InvalidArgumentError("all-reduce needs a result for each operand");
    }
    for (size_t k = 0; k < shape.operands.size(); ++k) {
      if (shape.operands[k].elements != shape.results[k].elements ||
          shape.operands[k].dtype != shape.results[k].dtype) {
        return absl::InvalidArgumentError(fmt::format("all-reduce: operand and result {} differ", k));
      }
    }
    return CheckReducers(shape);
  }

  int phases(const CollectiveShape& shape, const GroupPlan& plan) const override { return Owned(shape, plan) ? 2 : 1; }

  absl::Status Gather(const ExchangeView& view, int phase, int to, PieceList& pieces) const override {
    const Buffers& operands = view.shape.operands;
    if (phase == 1) {
      AddCut(operands, view.members[0].results, view.plan.self, view.plan.process_count(), pieces);
      return absl::OkStatus();
    }
    const int count = Owned(view.shape, view.plan) ? view.plan.process_count() : 1;
    for (const MemberBuffers& member : view.members) {
      AddCut(operands, member.operands, count == 1 ? 0 : to, count, pieces);
    }
    return absl::OkStatus();
  }

  std::optional<int64_t> ExpectedBytes(const CollectiveShape& shape, const GroupPlan& plan, int phase,
                                       int from) const override {
    const int count = plan.process_count();
    if (phase == 1) return CutBytes(shape.operands, from, count);
    const auto ranks = static_cast<int64_t>(plan.processes[from].positions.size());
    return ranks * (Owned(shape, plan) ? CutBytes(shape.operands, plan.self, count) : shape.operand_bytes());
  }

  absl::Status Apply(const ExchangeView& view, int phase, int part, int parts) const override {
    return phase == 0 ? Fold(view, part, parts) : Spread(view, part, parts);
  }

 private:
  static bool Owned(const CollectiveShape& shape, const GroupPlan& plan) {
    return plan.process_count() > 2 && shape.operand_bytes() > kSmallReduceBytes;
  }

  template <typename Pointers>
  static void AddCut(const Buffers& operands, const Pointers& buffers, int p, int count, PieceList& pieces) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const Range range = Cut(operands[k].elements, p, count);
      const int64_t width = HostBytes(operands[k].dtype);
      pieces.Add(buffers[k] + range.begin * width, range.size() * width);
    }
  }

  // Reduces the elements that this process owns (all of them if the exchange has one phase).
  static absl::Status Fold(const ExchangeView& view, int part, int parts) {
    const GroupPlan& plan = view.plan;
    const bool owned = Owned(view.shape, plan);
    const int count = owned ? plan.process_count() : 1;
    const int self = owned ? plan.self : 0;
    const int64_t message_bytes = CutBytes(view.shape.operands, self, count);  // of one rank
    absl::InlinedVector<const char*, 16> sources(plan.ranks.size());
    absl::InlinedVector<char*, 8> destinations(view.members.size());
    int64_t offset = 0;  // of operand k in what a rank sent
    for (size_t k = 0; k < view.shape.operands.size(); ++k) {
      const auto& operand = view.shape.operands[k];
      ASSIGN_OR_RETURN(const Reducer reducer, FindReducer(operand.dtype, view.shape.reduction));
      const int64_t width = HostBytes(operand.dtype);
      const Range mine = Cut(operand.elements, self, count);
      const Range share = Cut(mine.size(), part, parts);
      for (size_t r = 0; r < sources.size(); ++r) {
        const int process = plan.process_of[r];
        sources[r] =
            process == plan.self
                ? view.members[plan.index_of[r]].operands[k] + (mine.begin + share.begin) * width
                : view.received[process].data() + plan.index_of[r] * message_bytes + offset + share.begin * width;
      }
      for (size_t m = 0; m < destinations.size(); ++m) {
        destinations[m] = view.members[m].results[k] + (mine.begin + share.begin) * width;
      }
      Reduce(reducer, sources, destinations, static_cast<size_t>(share.size()));
      offset += mine.size() * width;
    }
    return absl::OkStatus();
  }

  // Copies the elements that other processes folded.
  static absl::Status Spread(const ExchangeView& view, int part, int parts) {
    const int count = view.plan.process_count();
    for (size_t m = static_cast<size_t>(part); m < view.members.size(); m += static_cast<size_t>(parts)) {
      for (int process = 0; process < count; ++process) {
        if (process == view.plan.self) continue;
        const char* source = view.received[process].data();
        for (size_t k = 0; k < view.shape.operands.size(); ++k) {
          const Range range = Cut(view.shape.operands[k].elements, process, count);
          const int64_t width = HostBytes(view.shape.operands[k].dtype);
          CopyBytes(view.members[m].results[k] + range.begin * width, source, range.size() * width);
          source += range.size() * width;
        }
      }
    }
    return absl::OkStatus();
  }
};

// A message holds, for each rank of the sender, for each operand, for each rank of the receiver, its chunks of all
// blocks.
class ReduceScatterAlgorithm : public Algorithm {
 public:
  absl::Status Validate(const CollectiveShape& shape, int size) const override {
    RETURN_IF_ERROR(CheckBlocks(shape, size, /*whole_operand=*/true,
                                /*whole_result=*/false));
    for (size_t k = 0; k < shape.operands.size(); ++k) {
      if (shape.operands[k].dtype != shape.results[k].dtype ||
          shape.chunk_bytes[k] % std::max<int64_t>(HostBytes(shape.operands[k].dtype), 1) != 0) {
        return absl::InvalidArgumentError(fmt::format("reduce-scatter: chunk of operand {} splits elements", k));
      }
    }
    return CheckReducers(shape);
  }

  int phases(const CollectiveShape&, const GroupPlan&) const override { return 1; }

  absl::Status Gather(const ExchangeView& view, int, int to, PieceList& pieces) const override {
    const CollectiveShape& shape = view.shape;
    for (const MemberBuffers& member : view.members) {
      for (size_t k = 0; k < shape.operands.size(); ++k) {
        for (int position : view.plan.processes[to].positions) {
          AddChunks(member.operands[k], shape.outer[k], shape.chunk_bytes[k], view.plan.size(), position, pieces);
        }
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
    const CollectiveShape& shape = view.shape;
    const auto locals = static_cast<int64_t>(plan.local().size());
    const int64_t rank_bytes = locals * ShardBytes(shape);  // what one rank sends here
    absl::InlinedVector<StridedSource, 16> sources(plan.ranks.size());
    int64_t offset = 0;
    for (size_t k = 0; k < shape.operands.size(); ++k) {
      ASSIGN_OR_RETURN(const Reducer reducer, FindReducer(shape.operands[k].dtype, shape.reduction));
      const int64_t chunk = shape.chunk_bytes[k];
      const int64_t shard = shape.outer[k] * chunk;
      const int64_t width = HostBytes(shape.operands[k].dtype);
      const Range share = Cut(shard / width, part, parts);
      for (int64_t m = 0; m < locals; ++m) {
        for (size_t r = 0; r < sources.size(); ++r) {
          const int process = plan.process_of[r];
          if (process == plan.self) {
            sources[r] = {view.members[plan.index_of[r]].operands[k] + plan.local()[m] * chunk, plan.size() * chunk};
          } else {
            sources[r] = {view.received[process].data() + plan.index_of[r] * rank_bytes + offset + m * shard, chunk};
          }
        }
        ReduceShard(reducer, sources, chunk, share.begin * width, share.end * width, view.members[m].results[k]);
      }
      offset += locals * shard;
    }
    return absl::OkStatus();
  }
};

}  // namespace

const Algorithm& AllReduce() {
  static const AllReduceAlgorithm algorithm;
  return algorithm;
}

const Algorithm& ReduceScatter() {
  static const ReduceScatterAlgorithm algorithm;
  return algorithm;
}

}  // namespace switchtower
