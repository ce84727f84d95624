#include "worker/collective/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "worker/collective/small_floats.h"

namespace switchtower {
namespace {

// How a type lies in memory (Stored) and what its arithmetic is done in (Value).
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value Load(Stored s) { return s; }
  static Stored Store(Value v) { return v; }
};
struct Half {
  using Stored = uint16_t;
  using Value = float;
  static float Load(uint16_t s) { return FromHalf(s); }
  static uint16_t Store(float v) { return ToHalf(v); }
};
struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  static float Load(uint16_t s) { return FromBFloat16(s); }
  static uint16_t Store(float v) { return ToBFloat16(v); }
};

// Signed integers wrap, as XLA's do; in C++ only unsigned ones may.
template <typename T>
auto Wrapping(T value) {
  if constexpr (std::is_integral_v<T>) {
    // Narrow types would become (signed) int by promotion.
    using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
    return static_cast<Wide>(value);
  } else {
    return value;
  }
}

struct Sum {
  static constexpr int kIdentity = 0;
  template <typename V>
  static V Apply(V a, V b) {
    return static_cast<V>(Wrapping(a) + Wrapping(b));
  }
};
struct Product {
  static constexpr int kIdentity = 1;
  template <typename V>
  static V Apply(V a, V b) {
    return static_cast<V>(Wrapping(a) * Wrapping(b));
  }
};
struct Min {
  template <typename V>
  static V Apply(V a, V b) {
    return (a <= b) | (a != a) ? a : b;
  }
};
struct Max {
  template <typename V>
  static V Apply(V a, V b) {
    return (a >= b) | (a != a) ? a : b;
  }
};
struct And {
  template <typename V>
  static V Apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Or {
  template <typename V>
  static V Apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  template <typename V>
  static V Apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

template <typename S>
S LoadAt(const char* p, size_t i) {
  S value;
  std::memcpy(&value, p + i * sizeof(S), sizeof(S));
  return value;
}
template <typename S>
void StoreAt(char* p, size_t i, S value) {
  std::memcpy(p + i * sizeof(S), &value, sizeof(S));
}

template <typename Type, typename Op>
void Fold(char* __restrict acc, const char* __restrict source, size_t count) {
  using S = typename Type::Stored;
  for (size_t i = 0; i < count; ++i) {
    const auto value = Op::Apply(Type::Load(LoadAt<S>(acc, i)), Type::Load(LoadAt<S>(source, i)));
    StoreAt<S>(acc, i, Type::Store(value));
  }
}

template <typename Type, typename Op>
void Start(char* __restrict acc, const char* __restrict source, size_t count) {
  using S = typename Type::Stored;
  using V = typename Type::Value;
  if constexpr (std::is_same_v<Op, Sum> || std::is_same_v<Op, Product>) {
    const V identity = static_cast<V>(Op::kIdentity);
    for (size_t i = 0; i < count; ++i) {
      StoreAt<S>(acc, i, Type::Store(Op::Apply(identity, Type::Load(LoadAt<S>(source, i)))));
    }
  } else {
    std::memcpy(acc, source, count * sizeof(S));
  }
}

template <typename Type, typename Op>
Reducer Make() {
  return Reducer{&Start<Type, Op>, &Fold<Type, Op>, sizeof(typename Type::Stored)};
}

Reducer None() { return Reducer{}; }

template <typename Type>
Reducer FloatReducer(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
      return Make<Type, Sum>();
    case ReductionKind::kProduct:
      return Make<Type, Product>();
    case ReductionKind::kMin:
      return Make<Type, Min>();
    case ReductionKind::kMax:
      return Make<Type, Max>();
    default:
      return None();
  }
}

template <typename T>
Reducer IntegerReducer(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kAnd:
      return Make<Plain<T>, And>();
    case ReductionKind::kOr:
      return Make<Plain<T>, Or>();
    case ReductionKind::kXor:
      return Make<Plain<T>, Xor>();
    default:
      return FloatReducer<Plain<T>>(kind);
  }
}

template <typename T>
Reducer ComplexReducer(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
      return Make<Plain<T>, Sum>();
    case ReductionKind::kProduct:
      return Make<Plain<T>, Product>();
    default:
      return None();
  }
}

Reducer PredReducer(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kAnd:
      return Make<Plain<uint8_t>, And>();
    case ReductionKind::kOr:
      return Make<Plain<uint8_t>, Or>();
    case ReductionKind::kXor:
      return Make<Plain<uint8_t>, Xor>();
    default:
      return None();
  }
}

Reducer Find(DType dtype, ReductionKind kind) {
  switch (dtype) {
    case DType::kPred:
      return PredReducer(kind);
    case DType::kS8:
      return IntegerReducer<int8_t>(kind);
    case DType::kS16:
      return IntegerReducer<int16_t>(kind);
    case DType::kS32:
      return IntegerReducer<int32_t>(kind);
    case DType::kS64:
      return IntegerReducer<int64_t>(kind);
    case DType::kU8:
      return IntegerReducer<uint8_t>(kind);
    case DType::kU16:
      return IntegerReducer<uint16_t>(kind);
    case DType::kU32:
      return IntegerReducer<uint32_t>(kind);
    case DType::kU64:
      return IntegerReducer<uint64_t>(kind);
    case DType::kF16:
      return FloatReducer<Half>(kind);
    case DType::kBF16:
      return FloatReducer<BFloat16>(kind);
    case DType::kF32:
      return FloatReducer<Plain<float>>(kind);
    case DType::kF64:
      return FloatReducer<Plain<double>>(kind);
    case DType::kC64:
      return ComplexReducer<std::complex<float>>(kind);
    case DType::kC128:
      return ComplexReducer<std::complex<double>>(kind);
    default:
      return None();
  }
}

// Small enough to stay in the first cache together with a block of a source.
constexpr size_t kBlockBytes = 8 * 1024;
struct alignas(64) Block {
  char bytes[kBlockBytes];
};

void FoldAll(const Reducer& reducer, absl::Span<const char* const> sources, char* acc, size_t offset, size_t count) {
  reducer.start(acc, sources[0] + offset, count);
  for (size_t r = 1; r < sources.size(); ++r) reducer.fold(acc, sources[r] + offset, count);
}

// Blocks [first, first + blocks) of a source side by side: in place if they lie so, else copied to `packed`.
const char* Contiguous(const StridedSource& source, int64_t block_bytes, int64_t first, int64_t blocks, char* packed) {
  const char* data = source.data + first * source.stride;
  if (source.stride == block_bytes || blocks == 1) return data;
  for (int64_t b = 0; b < blocks; ++b) {
    std::memcpy(packed + b * block_bytes, data + b * source.stride, static_cast<size_t>(block_bytes));
  }
  return packed;
}

}  // namespace

absl::StatusOr<Reducer> FindReducer(DType dtype, ReductionKind kind) {
  const Reducer reducer = Find(dtype, kind);
  if (reducer.fold == nullptr) {
    return absl::UnimplementedError(fmt::format("no reduction of kind {} on {}", static_cast<int64_t>(kind),
                                                IsKnown(dtype) ? Name(dtype) : "an unknown type"));
  }
  return reducer;
}

void Reduce(const Reducer& reducer, absl::Span<const char* const> sources, absl::Span<char* const> destinations,
            size_t count) {
  if (sources.empty()) return;
  Block block;
  const size_t per_block = kBlockBytes / reducer.element_bytes;
  for (size_t done = 0; done < count; done += per_block) {
    const size_t n = std::min(per_block, count - done);
    const size_t offset = done * reducer.element_bytes;
    FoldAll(reducer, sources, block.bytes, offset, n);
    for (char* destination : destinations) {
      std::memcpy(destination + offset, block.bytes, n * reducer.element_bytes);
    }
  }
}

void ReduceShard(const Reducer& reducer, absl::Span<const StridedSource> sources, int64_t block_bytes, int64_t begin,
                 int64_t end, char* destination) {
  if (sources.empty() || block_bytes <= 0) return;
  Block acc, packed;
  const auto element = static_cast<int64_t>(reducer.element_bytes);
  constexpr int64_t kBlock = kBlockBytes;
  while (begin < end) {
    const int64_t first = begin / block_bytes;
    const int64_t inside = begin % block_bytes;
    const int64_t whole_blocks = inside == 0 ? std::min(kBlock / block_bytes, (end - begin) / block_bytes) : 0;
    const int64_t length =
        whole_blocks > 0 ? whole_blocks * block_bytes : std::min({block_bytes - inside, end - begin, kBlock});
    for (size_t r = 0; r < sources.size(); ++r) {
      const char* source = whole_blocks > 0 ? Contiguous(sources[r], block_bytes, first, whole_blocks, packed.bytes)
                                            : sources[r].data + first * sources[r].stride + inside;
      (r == 0 ? reducer.start : reducer.fold)(acc.bytes, source, static_cast<size_t>(length / element));
    }
    std::memcpy(destination + begin, acc.bytes, static_cast<size_t>(length));
    begin += length;
  }
}

}  // namespace switchtower
