#include "worker/collective/ffi_handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "hlo/collective_calls.h"
#include "worker/collective/call_wait.h"
#include "worker/collective/exchange_engine.h"
#include "worker/collective/ffi_binding.h"
#include "worker/collective/fp_mode.h"
#include "worker/collective/member_call.h"

namespace switchtower {
namespace {

namespace ffi = xla::ffi;
namespace attribute = collective_attribute;
using ffi_binding::AsyncCall;
using ffi_binding::AsyncResult;

// Most collectives of ranks in step end within it. Not longer: the client has few threads, and where two ranks come to
// independent collectives in another order each, these waits have to end before either goes on.
constexpr std::chrono::milliseconds kWait{1};
constexpr int64_t kIdMax = std::numeric_limits<uint32_t>::max();

// One call as XLA hands it over. Valid inside the handler alone.
struct Incoming {
  LaunchContext& launch;
  const ffi::RemainingArgs& args;
  const ffi::RemainingRets& rets;
  const ffi::Dictionary& attributes;
};

absl::StatusOr<int64_t> Integer(const ffi::Dictionary& attributes, const char* name) {
  const auto value = attributes.get<int64_t>(name);
  if (value.has_error()) return absl::InvalidArgumentError(fmt::format("attribute {} is missing or no i64", name));
  return value.value();
}

absl::StatusOr<absl::Span<const int64_t>> Integers(const ffi::Dictionary& attributes, const char* name) {
  const auto value = attributes.get<ffi::Span<const int64_t>>(name);
  if (value.has_error()) {
    return absl::InvalidArgumentError(fmt::format("attribute {} is missing or no array of i64", name));
  }
  return absl::MakeConstSpan(value->begin(), value->size());
}

template <typename Buffer>
absl::StatusOr<CollectiveShape::Buffer> Describe(const Buffer& buffer) {
  CollectiveShape::Buffer described{ffi_binding::DTypeOf(buffer.element_type()), 1};
  for (int64_t dimension : buffer.dimensions()) described.elements *= dimension;
  if (HostBytes(described.dtype) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("a collective can't carry element type {}", static_cast<int>(described.dtype)));
  }
  return described;
}

absl::Status ReadBuffers(const Incoming& in, MemberCall& call) {
  for (size_t i = 0; i < in.args.size(); ++i) {
    const auto buffer = in.args.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return absl::InvalidArgumentError(buffer.error().message());
    ASSIGN_OR_RETURN(call.shape.operands.emplace_back(), Describe(*buffer));
    call.operands.push_back(static_cast<const char*>(buffer->untyped_data()));
  }
  for (size_t i = 0; i < in.rets.size(); ++i) {
    auto buffer = in.rets.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return absl::InvalidArgumentError(buffer.error().message());
    ASSIGN_OR_RETURN(call.shape.results.emplace_back(), Describe(**buffer));
    call.results.push_back(static_cast<char*>((*buffer)->untyped_data()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExchangeEngine*> EngineOf(const LaunchContext& launch) {
  if (launch.engine == nullptr || launch.gang == nullptr || launch.rank < 0 ||
      launch.rank >= static_cast<int>(launch.gang->ranks.size())) {
    return absl::InvalidArgumentError("the launch context has no engine, no gang or a rank outside it");
  }
  return static_cast<ExchangeEngine*>(launch.engine);
}

// Sets the plan and this rank's position. False: the rank is in no group.
absl::StatusOr<bool> ReadGroup(const Incoming& in, ExchangeEngine& engine, MemberCall& call) {
  ASSIGN_OR_RETURN(const auto groups, Integers(in.attributes, attribute::kGroups));
  ASSIGN_OR_RETURN(const auto offsets, Integers(in.attributes, attribute::kGroupOffsets));
  for (size_t g = 0; g + 1 < offsets.size(); ++g) {
    const int64_t begin = offsets[g], end = offsets[g + 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(groups.size())) {
      return absl::InvalidArgumentError(fmt::format("group {} is [{}, {}) of {} ranks", g, begin, end, groups.size()));
    }
    const auto group = groups.subspan(begin, end - begin);
    const auto it = std::find(group.begin(), group.end(), in.launch.rank);
    if (it == group.end()) continue;
    call.group = static_cast<uint32_t>(g);
    call.position = static_cast<int>(it - group.begin());
    ASSIGN_OR_RETURN(call.plan, engine.Plan(in.launch.gang, group));
    return true;
  }
  return false;
}

// All ranks that send or receive are one group. False: this rank does neither.
absl::StatusOr<bool> ReadPairs(const Incoming& in, ExchangeEngine& engine, MemberCall& call) {
  ASSIGN_OR_RETURN(const auto sources, Integers(in.attributes, attribute::kSources));
  ASSIGN_OR_RETURN(const auto targets, Integers(in.attributes, attribute::kTargets));
  if (sources.size() != targets.size()) return absl::InvalidArgumentError("sources and targets differ in number");
  absl::InlinedVector<int64_t, 32> ranks(sources.begin(), sources.end());
  ranks.insert(ranks.end(), targets.begin(), targets.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const auto position = [&ranks](int64_t rank) {
    const auto it = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return it == ranks.end() || *it != rank ? -1 : static_cast<int>(it - ranks.begin());
  };
  call.position = position(in.launch.rank);
  if (call.position < 0) return false;
  call.shape.source_of.resize(ranks.size(), -1);
  for (size_t i = 0; i < targets.size(); ++i) {
    int& source = call.shape.source_of[position(targets[i])];
    if (source >= 0) return absl::InvalidArgumentError(fmt::format("rank {} is a target twice", targets[i]));
    source = position(sources[i]);
  }
  ASSIGN_OR_RETURN(call.plan, engine.Plan(in.launch.gang, ranks));
  return true;
}

absl::Status ReadBlocks(const Incoming& in, MemberCall& call) {
  ASSIGN_OR_RETURN(const auto outer, Integers(in.attributes, attribute::kOuter));
  ASSIGN_OR_RETURN(const auto chunk_bytes, Integers(in.attributes, attribute::kChunkBytes));
  call.shape.outer.assign(outer.begin(), outer.end());
  call.shape.chunk_bytes.assign(chunk_bytes.begin(), chunk_bytes.end());
  return absl::OkStatus();
}

absl::Status ReadReduction(const Incoming& in, MemberCall& call) {
  ASSIGN_OR_RETURN(const int64_t kind, Integer(in.attributes, attribute::kKind));
  if (kind < static_cast<int64_t>(ReductionKind::kSum) || kind > static_cast<int64_t>(ReductionKind::kXor)) {
    return absl::InvalidArgumentError(fmt::format("no reduction of kind {}", kind));
  }
  call.shape.reduction = static_cast<ReductionKind>(kind);
  return absl::OkStatus();
}

absl::Status NotInGroup(const LaunchContext& launch) {
  return absl::InvalidArgumentError(fmt::format("rank {} is in no group of the collective", launch.rank));
}

// Reads what is special to a kind. False: this rank gets zeros and takes no part.
template <CollectiveKind kind>
absl::StatusOr<bool> ReadKind(const Incoming& in, ExchangeEngine& engine, MemberCall& call) {
  call.shape.kind = kind;
  if constexpr (kind == CollectiveKind::kPermute) {
    return ReadPairs(in, engine, call);
  } else {
    if constexpr (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) {
      RETURN_IF_ERROR(ReadReduction(in, call));
    }
    if constexpr (kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather ||
                  kind == CollectiveKind::kAllToAllArray) {
      RETURN_IF_ERROR(ReadBlocks(in, call));
    }
    if constexpr (kind == CollectiveKind::kRaggedAllToAll) {
      ASSIGN_OR_RETURN(call.shape.row_bytes, Integer(in.attributes, attribute::kRowBytes));
    }
    ASSIGN_OR_RETURN(const bool member, ReadGroup(in, engine, call));
    if (!member) return NotInGroup(in.launch);
    return true;
  }
}

absl::StatusOr<bool> ReadBroadcast(const Incoming& in, ExchangeEngine& engine, MemberCall& call) {
  call.shape.kind = CollectiveKind::kPermute;
  ASSIGN_OR_RETURN(const bool member, ReadGroup(in, engine, call));
  if (member) call.shape.source_of.resize(call.plan->ranks.size(), 0);
  return member;
}

using Reader = absl::StatusOr<bool> (*)(const Incoming&, ExchangeEngine&, MemberCall&);

absl::StatusOr<bool> ReadCall(const Incoming& in, Reader reader, ExchangeEngine& engine, MemberCall& call) {
  ASSIGN_OR_RETURN(const int64_t op_id, Integer(in.attributes, attribute::kOpId));
  if (op_id < 0 || op_id > kIdMax) return absl::InvalidArgumentError(fmt::format("no op id: {}", op_id));
  RETURN_IF_ERROR(ReadBuffers(in, call));
  call.launch = in.launch.id;
  call.op_id = static_cast<uint32_t>(op_id);
  ASSIGN_OR_RETURN(const bool member, reader(in, engine, call));
  // Counted only for calls that take part, which are the same ones on all ranks of a group.
  if (member) call.iteration = in.launch.NextIteration(call.op_id);
  return member;
}

template <Reader reader>
AsyncResult Handle(const XLA_FFI_Api* api, LaunchContext* launch, ffi::RemainingArgs args, ffi::RemainingRets rets,
                   ffi::Dictionary attributes) {
  const auto engine = EngineOf(*launch);
  if (!engine.ok()) return AsyncCall::ToError(api, engine.status());
  MemberCall call;
  const auto member = ReadCall(Incoming{*launch, args, rets, attributes}, reader, **engine, call);
  if (!member.ok()) return AsyncCall::ToError(api, member.status());
  if (!*member) {
    for (size_t k = 0; k < call.results.size(); ++k) {
      std::memset(call.results[k], 0, static_cast<size_t>(call.shape.results[k].bytes()));
    }
    return static_cast<XLA_FFI_Error*>(nullptr);
  }
  const bool peers = call.plan->process_count() > 1;
  auto wait = std::make_shared<CallWait>(**engine);
  call.done = [wait](absl::Status status) { wait->Complete(std::move(status)); };
  (*engine)->Join(std::move(call));
  if (wait->Await(peers, kWait)) {
    return wait->status().ok() ? static_cast<XLA_FFI_Error*>(nullptr) : AsyncCall::ToError(api, wait->status());
  }
  const auto created = AsyncCall::Create(api);
  if (std::holds_alternative<XLA_FFI_Error*>(created)) return std::get<XLA_FFI_Error*>(created);
  const AsyncCall async = std::get<AsyncCall>(created);
  // The program goes on inside Complete, for as long as it likes.
  wait->Then([async, engine = *engine](absl::Status status) {
    engine->Resume([async, status = std::move(status)] {
      ScopedXlaFloatMode mode;
      async.Complete(status);
    });
  });
  return async.future();
}

template <Reader reader>
constexpr auto* kCall = &ffi_binding::Call<&Handle<reader>>;

ffi::Error PartitionId(LaunchContext* launch, ffi::RemainingRets rets) {
  auto result = rets.get<ffi::AnyBuffer>(0);
  if (result.has_error()) return result.error();
  if ((*result)->element_type() != ffi::DataType::U32 || (*result)->element_count() != 1) {
    return ffi::Error::InvalidArgument("the result of partition-id is not one u32");
  }
  const auto rank = static_cast<uint32_t>(launch->rank);
  std::memcpy((*result)->untyped_data(), &rank, sizeof(rank));
  return ffi::Error::Success();
}

XLA_FFI_Error* CallPartitionId(XLA_FFI_CallFrame* frame) {
  static auto* const handler = ffi::Ffi::Bind().Ctx<ffi_binding::Launch>().RemainingRets().To(&PartitionId).release();
  return handler->Call(frame);
}

CollectiveHandler Handler(const char* target, XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*)) {
  return {target, reinterpret_cast<void*>(handler)};
}

}  // namespace

std::vector<CollectiveHandler> CollectiveHandlers() {
  using Kind = CollectiveKind;
  namespace target = collective_target;
  return {
      Handler(target::kAllReduce, kCall<&ReadKind<Kind::kAllReduce>>),
      Handler(target::kReduceScatter, kCall<&ReadKind<Kind::kReduceScatter>>),
      Handler(target::kAllGather, kCall<&ReadKind<Kind::kAllGather>>),
      Handler(target::kAllToAll, kCall<&ReadKind<Kind::kAllToAll>>),
      Handler(target::kAllToAllArray, kCall<&ReadKind<Kind::kAllToAllArray>>),
      Handler(target::kCollectivePermute, kCall<&ReadKind<Kind::kPermute>>),
      Handler(target::kCollectiveBroadcast, kCall<&ReadBroadcast>),
      Handler(target::kRaggedAllToAll, kCall<&ReadKind<Kind::kRaggedAllToAll>>),
      Handler(target::kPartitionId, &CallPartitionId),
  };
}

void SetLaunchContextType(int64_t type_id) {
  ffi_binding::LaunchContextType().store(type_id, std::memory_order_relaxed);
}

absl::StatusOr<int64_t> RegisterCollectives(Engine& engine) {
  ASSIGN_OR_RETURN(const int64_t type, engine.RegisterFfiType(kLaunchContextType));
  SetLaunchContextType(type);
  for (const CollectiveHandler& handler : CollectiveHandlers()) {
    RETURN_IF_ERROR(engine.RegisterFfiHandler(handler.target, handler.handler));
  }
  return type;
}

}  // namespace switchtower
