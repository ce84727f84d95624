#include "worker/collective/member_call.h"

namespace switchtower {
namespace {

class Fingerprinter {
 public:
  void Add(uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ull;
    hash_ ^= hash_ >> 32;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0x243f6a8885a308d3ull;
};

}  // namespace

std::string_view Name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kAllToAllArray:
      return "all-to-all";
    case CollectiveKind::kPermute:
      return "collective-permute";
    case CollectiveKind::kRaggedAllToAll:
      return "ragged-all-to-all";
  }
  return "collective";
}

int64_t CollectiveShape::operand_bytes() const {
  int64_t bytes = 0;
  for (const Buffer& buffer : operands) bytes += buffer.bytes();
  return bytes;
}

int64_t CollectiveShape::result_bytes() const {
  int64_t bytes = 0;
  for (const Buffer& buffer : results) bytes += buffer.bytes();
  return bytes;
}

uint64_t CollectiveShape::Fingerprint() const {
  Fingerprinter hash;
  hash.Add(static_cast<uint64_t>(kind));
  hash.Add(static_cast<uint64_t>(reduction));
  for (const auto* buffers : {&operands, &results}) {
    hash.Add(buffers->size());
    for (const Buffer& buffer : *buffers) {
      hash.Add(static_cast<uint64_t>(buffer.dtype));
      hash.Add(static_cast<uint64_t>(buffer.elements));
    }
  }
  for (int64_t value : outer) hash.Add(static_cast<uint64_t>(value));
  for (int64_t value : chunk_bytes) hash.Add(static_cast<uint64_t>(value));
  hash.Add(static_cast<uint64_t>(row_bytes));
  for (int value : source_of) hash.Add(static_cast<uint64_t>(value));
  return hash.value();
}

}  // namespace switchtower
