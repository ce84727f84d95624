#include "controller/graph/shard_moves.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "controller/arrays/reshard_planner.h"

namespace switchtower {
namespace {

DeviceListPtr Union(std::vector<Place> places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return DeviceList::Make(std::move(places));
}

Box Whole(const Shape& shape) { return Box{std::vector<int64_t>(shape.dims.size(), 0), shape.dims}; }

absl::StatusOr<std::vector<ShardPlace>> ShardPlaces(const DeviceTable& devices, const ArrayInfo& info) {
  std::vector<ShardPlace> shards;
  for (int i = 0; i < info.spec.sharding.num_shards(); ++i) {
    const Place& place = info.devices->places[i];
    ASSIGN_OR_RETURN(Box box, ShardBox(info.spec.sharding, info.spec.shape, i));
    shards.push_back(ShardPlace{place, devices.SliceOf(place), std::move(box)});
  }
  return shards;
}

bool IsConcrete(const ArrayInfo& info) { return info.spec.sharding.kind == Sharding::Kind::kConcrete; }

}  // namespace

Layout LayoutOf(const ArraySpec& spec) { return spec.layout.value_or(Layout::Default(spec.shape.rank())); }

void SubmitMoves(SessionContext& session, const std::vector<ShardMove>& moves, bool copy, LossLedger::Stamp stamp,
                 uint64_t user_context) {
  if (moves.empty()) return;
  if (!copy) {
    BindOp bind;
    std::vector<Place> places;
    for (const ShardMove& move : moves) {
      bind.bindings.push_back(BindOp::Binding{move.from, move.to, move.place});
      places.push_back(move.place);
    }
    bind.devices = Union(std::move(places));
    session.Submit(std::move(bind), stamp, user_context);
    return;
  }
  std::map<std::pair<ArrayId, ArrayId>, TransferOp> transfers;
  for (const ShardMove& move : moves) {
    TransferOp& transfer = transfers[{move.from, move.to}];
    transfer.from = move.from;
    transfer.to = move.to;
    transfer.layout = move.layout;
    transfer.memory_kind = move.memory_kind;
    transfer.destinations.push_back({move.place, move.shape});
    if (move.shape.elements() == 0) continue;
    transfer.pieces.push_back({move.place, move.place, Whole(move.shape), Whole(move.shape)});
  }
  for (auto& [pair, transfer] : transfers) {
    std::vector<Place> places;
    for (const TransferOp::Destination& destination : transfer.destinations) places.push_back(destination.place);
    transfer.destination_devices = Union(std::move(places));
    transfer.source_seats = transfer.destination_devices->seats;
    session.Submit(std::move(transfer), stamp, user_context);
  }
}

absl::StatusOr<TransferOp> PlanTransfer(const DeviceTable& devices, ArrayId from, const ArrayInfo& from_info,
                                        ArrayId to, const ArrayInfo& to_info) {
  TransferOp transfer;
  transfer.from = from;
  transfer.to = to;
  transfer.destination_devices = to_info.devices;
  transfer.layout = LayoutOf(to_info.spec);
  transfer.memory_kind = to_info.spec.sharding.memory_kind;
  const int count = to_info.spec.sharding.num_shards();
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Shape shape, ShardShape(to_info.spec.sharding, to_info.spec.shape, i));
    transfer.destinations.push_back({to_info.devices->places[i], std::move(shape)});
  }
  if (IsConcrete(from_info) || IsConcrete(to_info)) {
    // Where shards lie in the whole isn't known: shard i stays shard i.
    if (from_info.spec.sharding.num_shards() != count) {
      return absl::UnimplementedError(
          fmt::format("an array whose sharding doesn't say where its {} shards lie can't be cut into {}",
                      from_info.spec.sharding.num_shards(), count));
    }
    for (int i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(Shape shape, ShardShape(from_info.spec.sharding, from_info.spec.shape, i));
      if (shape != transfer.destinations[i].shard_shape) {
        return absl::UnimplementedError(
            fmt::format("shard {} would change its shape from {} to {}, but the "
                        "sharding doesn't say where it lies in the array",
                        i, shape.ToString(), transfer.destinations[i].shard_shape.ToString()));
      }
      if (shape.elements() == 0) continue;
      transfer.pieces.push_back({from_info.devices->places[i], to_info.devices->places[i], Whole(shape), Whole(shape)});
    }
  } else {
    ASSIGN_OR_RETURN(std::vector<ShardPlace> sources, ShardPlaces(devices, from_info));
    ASSIGN_OR_RETURN(std::vector<ShardPlace> destinations, ShardPlaces(devices, to_info));
    ASSIGN_OR_RETURN(std::vector<ReshardPiece> pieces, PlanReshard(sources, destinations));
    for (ReshardPiece& piece : pieces) {
      transfer.pieces.push_back({sources[piece.source].place, destinations[piece.destination].place,
                                 std::move(piece.source_box), std::move(piece.destination_box)});
    }
  }
  std::vector<int32_t>& seats = transfer.source_seats;
  for (const TransferOp::Piece& piece : transfer.pieces) seats.push_back(piece.source.seat);
  std::sort(seats.begin(), seats.end());
  seats.erase(std::unique(seats.begin(), seats.end()), seats.end());
  return transfer;
}

bool SamePlacement(const DeviceTable& devices, const ArrayInfo& a, const ArrayInfo& b) {
  if (a.devices != b.devices || LayoutOf(a.spec) != LayoutOf(b.spec) ||
      !devices.SameMemory(a.spec.sharding.memory_kind, b.spec.sharding.memory_kind)) {
    return false;
  }
  for (int i = 0; i < a.spec.sharding.num_shards(); ++i) {
    if (IsConcrete(a) || IsConcrete(b)) {
      auto one = ShardShape(a.spec.sharding, a.spec.shape, i), two = ShardShape(b.spec.sharding, b.spec.shape, i);
      if (!one.ok() || !two.ok() || *one != *two) return false;
      continue;
    }
    auto one = ShardBox(a.spec.sharding, a.spec.shape, i), two = ShardBox(b.spec.sharding, b.spec.shape, i);
    if (!one.ok() || !two.ok() || !(*one == *two)) return false;
  }
  return true;
}

absl::StatusOr<std::vector<ShardMove>> MovesOfAll(ArrayId from, ArrayId to, const ArrayInfo& info) {
  std::vector<ShardMove> moves;
  for (int i = 0; i < info.spec.sharding.num_shards(); ++i) {
    ASSIGN_OR_RETURN(Shape shape, ShardShape(info.spec.sharding, info.spec.shape, i));
    moves.push_back(ShardMove{from, to, info.devices->places[i], std::move(shape), LayoutOf(info.spec),
                              info.spec.sharding.memory_kind});
  }
  return moves;
}

void DeleteDonated(SessionContext& session, absl::Span<const ArrayId> arrays) {
  DeleteOp remove;
  for (ArrayId id : arrays) {
    LogicalArray* array = session.arrays.Find(id);
    if (array == nullptr || array->deleted) continue;
    session.arrays.MarkDeleted(*array, "donated");
    if (!array->on_workers) continue;
    array->on_workers = false;
    remove.groups.push_back({array->info->devices, array->stamp, {id}});
  }
  if (!remove.groups.empty()) session.Submit(std::move(remove), session.now(), 0);
}

}  // namespace switchtower
