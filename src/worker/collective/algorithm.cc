#include "worker/collective/algorithm.h"

#include "worker/collective/move_algorithms.h"
#include "worker/collective/reduce_algorithms.h"

namespace switchtower {

const Algorithm& FindAlgorithm(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce();
    case CollectiveKind::kReduceScatter:
      return ReduceScatter();
    case CollectiveKind::kAllGather:
      return AllGather();
    case CollectiveKind::kAllToAll:
      return AllToAll();
    case CollectiveKind::kAllToAllArray:
      return AllToAllArray();
    case CollectiveKind::kPermute:
      return Permute();
    case CollectiveKind::kRaggedAllToAll:
      break;
  }
  return RaggedAllToAll();
}

}  // namespace switchtower
