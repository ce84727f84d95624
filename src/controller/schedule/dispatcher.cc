#include "controller/schedule/dispatcher.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "controller/schedule/op_traits.h"
#include "controller/schedule/stream_sender.h"

namespace switchtower {
namespace {

std::shared_ptr<const SharedCommand> Shared(WorkerCommand command) {
  return std::make_shared<const SharedCommand>(std::move(command));
}

}  // namespace

absl::Status Dispatcher::Check(const Op& op, bool* wait) const {
  absl::Status status;
  ForEachSeatList(op, [&](const std::vector<int32_t>& seats) {
    if (status.ok()) status = losses_.Check(seats, op.stamp);
    for (int32_t seat : seats) {
      if (view_.state(seat) == ClusterView::SeatState::kWaiting) *wait = true;
    }
  });
  return status;
}

LaunchId Dispatcher::NextId() {
  last_id_.epoch = std::max(last_id_.epoch, view_.home_epoch());
  ++last_id_.number;
  return last_id_;
}

void Dispatcher::OnDataLoss(LaunchId launch) {
  // What was sent before the last time failed by the same loss; what wasn't sent can't fail.
  if (launch <= told_again_after_ || launch > last_id_) return;
  told_again_after_ = last_id_;
  view_.TellPeersAgain();
}

std::vector<PhysicalDevice> Dispatcher::Where(const std::vector<Place>& places) const {
  std::vector<PhysicalDevice> devices;
  devices.reserve(places.size());
  for (const Place& place : places) devices.push_back(view_.Where(place));
  return devices;
}

bool Dispatcher::Send(Op op, const LaunchForecast::Expectation& expected) {
  struct Visitor {
    Dispatcher& self;
    Op& op;
    const LaunchForecast::Expectation& expected;
    bool operator()(LaunchOp& body) { return self.SendLaunch(op, body, expected); }
    bool operator()(PutOp& body) { return self.SendPut(op, body), true; }
    bool operator()(BindOp& body) { return self.SendBind(op, body), true; }
    bool operator()(TransferOp& body) { return self.SendTransfer(op, body), true; }
    bool operator()(ReadOp& body) {
      ++self.totals_.reads;
      const PhysicalDevice device = self.view_.Where(body.place);
      self.requests_.Read(op.session, self.view_.link(body.place.seat), device, std::move(body));
      return true;
    }
    bool operator()(ReadyOp& body) { return self.SendReady(op, body), true; }
    bool operator()(DeleteOp& body) { return self.SendDelete(op, body), true; }
    bool operator()(RetainOp& body) { return self.SendRetain(body), true; }
    bool operator()(ReleaseOp& body) { return self.programs_.Release(body.program->program->id), true; }
  };
  return std::visit(Visitor{*this, op, expected}, op.body);
}

AdmissionLedger::PurposePtr Dispatcher::PurposeOf(const Op& op, std::string creator, LaunchId launch) {
  return std::make_shared<const AdmissionLedger::Purpose>(
      AdmissionLedger::Purpose{op.session, op.user_context, std::move(creator), launch});
}

void Dispatcher::ChargeArrays(const Op& op, std::string creator, LaunchId launch) {
  const AdmissionLedger::PurposePtr purpose = PurposeOf(op, std::move(creator), launch);
  const MemoryNeeds needs = NeedsOf(op);
  for (const auto& [array, bytes] : needs.arrays) {
    admission_.ChargeArray(ArrayKey{op.session, array}, purpose, bytes);
  }
}

bool Dispatcher::SendLaunch(Op& op, LaunchOp& body, const LaunchForecast::Expectation& expected) {
  const PlacedProgram& program = *body.program;
  const GangPtr gang = gangs_.For(program.devices);
  if (absl::Status status = programs_.EnsureLoaded(gang->id, gang->links, program); !status.ok()) {
    Fail(std::move(op), std::move(status));
    return false;
  }
  LaunchRecord record;
  Launch launch;
  launch.id = NextId();
  if (admission_.enabled()) {
    std::vector<AdmissionLedger::Need> given;
    for (uint32_t index : body.donated) admission_.Donate(ArrayKey{op.session, body.arguments[index]}, &given);
    MemoryNeeds needs = NeedsOf(op);
    // What was donated and isn't needed stays taken until the launch has run: the buffer lives until then.
    std::vector<AdmissionLedger::Need> excess = AdmissionLedger::Excess(given, needs.All());
    needs.temporaries.insert(needs.temporaries.end(), excess.begin(), excess.end());
    ChargeArrays(op, "result of " + program.program->info.name, launch.id);
    record.temporaries = admission_.ChargeWhile(
        PurposeOf(op, "temporaries of " + program.program->info.name, launch.id), needs.temporaries);
  }
  launch.session = op.session;
  launch.program = program.program->id;
  launch.gang = gang->id;
  launch.arguments = std::move(body.arguments);
  launch.results = std::move(body.results);
  launch.donated = std::move(body.donated);
  launch.client_launch_id = body.client_launch_id;
  launch.awaited = body.awaited;
  const LaunchId id = launch.id;
  auto command = Shared(std::move(launch));
  const auto when = body.awaited ? WhenAwaited(gang->links.size()) : WorkerChannel::When::kSoon;
  for (const WorkerLinkPtr& link : gang->links) link->Send(command, when);
  ++totals_.launches;
  record.session = op.session;
  record.number = body.number;
  record.user_context = op.user_context;
  record.program = std::move(body.program);
  record.gang = gang;
  record.call_site = std::move(body.call_site);
  record.expected = expected;
  record.on_status = std::move(body.on_status);
  record.command = std::move(command);
  record.sent = std::chrono::steady_clock::now();
  in_flight_.Add(id, std::move(record));
  return true;
}

void Dispatcher::SendPut(Op& op, PutOp& body) {
  ++totals_.puts;
  const ArrayKey key{op.session, body.array};
  if (admission_.enabled()) ChargeArrays(op, "array from the host", {});
  for (PutOp::Shard& shard : body.shards) {
    const StreamId stream{++last_stream_};
    PutArray put;
    put.array = key;
    put.devices = Where(shard.places);
    put.shard_shape = shard.shape;
    put.byte_strides = std::move(shard.byte_strides);
    put.layout = body.layout;
    put.memory_kind = body.memory_kind;
    put.stream = stream;
    put.stream_bytes = static_cast<uint64_t>(std::max<int64_t>(0, shard.bytes));
    std::vector<WorkerLinkPtr> links;
    const auto devices = DeviceList::Make(shard.places);  // named: a temporary would end before the loop
    for (int32_t seat : devices->seats) links.push_back(view_.link(seat));
    auto command = Shared(std::move(put));
    for (const WorkerLinkPtr& link : links) link->Send(command);
    StreamSender::Start({stream, shard.bytes, 1, op.user_context, std::move(links), poster_}, *shard.buffer);
  }
}

void Dispatcher::SendBind(Op& op, BindOp& body) {
  // To each worker its own: all to all would be the square of the cluster.
  std::map<int32_t, BindArrays> binds;
  for (const BindOp::Binding& binding : body.bindings) {
    BindArrays& bind = binds[binding.place.seat];
    bind.session = op.session;
    bind.bindings.push_back({binding.from, binding.to, view_.Where(binding.place)});
    admission_.Bind({op.session, binding.from}, {op.session, binding.to}, binding.place);
  }
  for (auto& [seat, bind] : binds) view_.link(seat)->Send(std::move(bind));
}

void Dispatcher::SendTransfer(Op& op, TransferOp& body) {
  ++totals_.transfers;
  if (admission_.enabled()) ChargeArrays(op, "copy of another array", {});
  view_.TellPeers();
  TransferArray transfer;
  transfer.id = NextId();
  transfer.session = op.session;
  transfer.from = body.from;
  transfer.to = body.to;
  std::vector<int32_t> seats = body.source_seats;
  for (TransferOp::Destination& destination : body.destinations) {
    seats.push_back(destination.place.seat);
    transfer.destinations.push_back({view_.Where(destination.place), std::move(destination.shard_shape)});
  }
  transfer.layout = std::move(body.layout);
  transfer.memory_kind = std::move(body.memory_kind);
  for (TransferOp::Piece& piece : body.pieces) {
    transfer.pieces.push_back({view_.Where(piece.source), view_.Where(piece.destination), std::move(piece.source_box),
                               std::move(piece.destination_box)});
  }
  std::sort(seats.begin(), seats.end());
  seats.erase(std::unique(seats.begin(), seats.end()), seats.end());
  std::vector<WorkerLinkPtr> links;
  for (int32_t seat : seats) links.push_back(view_.link(seat));
  const LaunchId id = transfer.id;
  auto command = Shared(std::move(transfer));
  for (const WorkerLinkPtr& link : links) link->Send(command);
  in_flight_.AddTransfer(id, ArrayKey{op.session, body.to}, std::move(links));
}

void Dispatcher::SendReady(Op& op, ReadyOp& body) {
  if (body.maker.state == SessionLaunches::Standing::kEndedWell) return body.done(absl::OkStatus());
  if (body.maker.state == SessionLaunches::Standing::kUnderWay) {
    if (LaunchRecord* maker = in_flight_.FindPrompt(body.maker.id); maker != nullptr) {
      maker->questions.push_back(requests_.AwaitLaunch(op.session, maker->gang->links,
                                                       std::move(body.groups.front().arrays), std::move(body.done)));
      return;
    }
  }
  std::vector<std::pair<std::vector<WorkerLinkPtr>, std::vector<ArrayId>>> groups;
  for (ReadyOp::Group& group : body.groups) {
    auto& [links, arrays] = groups.emplace_back();
    for (int32_t seat : group.devices->seats) links.push_back(view_.link(seat));
    arrays = std::move(group.arrays);
  }
  requests_.AwaitReady(op.session, groups, std::move(body.done));
}

void Dispatcher::SendDelete(Op& op, DeleteOp& body) {
  for (DeleteOp::Group& group : body.groups) {
    for (ArrayId array : group.arrays) {
      const ArrayKey key{op.session, array};
      admission_.Delete(key, last_id_);
      in_flight_.DropTransfer(key);
    }
    auto command = Shared(DeleteArrays{op.session, std::move(group.arrays)});
    for (int32_t seat : group.devices->seats) {
      const WorkerLinkPtr& link = view_.link(seat);
      if (link == nullptr || !losses_.CheckSeat(seat, group.stamp).ok()) continue;
      // Its client waits for a launch there, and most likely sends the next one then.
      link->Send(command, in_flight_.TellsSoon(*link) ? WorkerChannel::When::kWithNext : WorkerChannel::When::kSoon);
    }
  }
}

void Dispatcher::SendRetain(RetainOp& body) {
  const PlacedProgram& program = *body.program;
  programs_.Retain(program);
  for (int32_t seat : program.devices->seats) {
    // Ahead of the first launch where the worker is in; a mismatch is told by the launch.
    if (WorkerLinkPtr link = view_.link(seat); link != nullptr) programs_.EnsureLoaded(link, program).IgnoreError();
  }
}

void Dispatcher::PutErrors(SessionId session, ArrayId array, const std::vector<Place>& places,
                           const absl::Status& error) {
  std::map<int32_t, std::vector<PhysicalDevice>> devices;  // by seat: to each worker its own
  for (const Place& place : places) {
    if (view_.link(place.seat) != nullptr) devices[place.seat].push_back(view_.Where(place));
  }
  for (auto& [seat, at] : devices) view_.link(seat)->Send(PutError{ArrayKey{session, array}, std::move(at), error});
}

void Dispatcher::Fail(Op op, absl::Status cause) {
  cause = WithUserContext(std::move(cause), op.user_context);
  struct Visitor {
    Dispatcher& self;
    const Op& op;
    const absl::Status& cause;
    void operator()(LaunchOp& body) {
      for (ArrayId result : body.results) {
        self.PutErrors(op.session, result, body.program->devices->places, cause);
      }
      if (body.on_status) body.on_status(cause);
    }
    void operator()(PutOp& body) { self.PutErrors(op.session, body.array, body.devices->places, cause); }
    void operator()(BindOp& body) {
      std::map<ArrayId, std::vector<Place>> places;
      for (const BindOp::Binding& binding : body.bindings) places[binding.to].push_back(binding.place);
      for (const auto& [array, at] : places) self.PutErrors(op.session, array, at, cause);
    }
    void operator()(TransferOp& body) {
      std::vector<Place> places;
      for (const TransferOp::Destination& destination : body.destinations) places.push_back(destination.place);
      self.PutErrors(op.session, body.to, places, cause);
    }
    void operator()(ReadOp& body) { body.on_end(cause); }
    void operator()(ReadyOp& body) { body.done(cause); }
    void operator()(DeleteOp&) {}
    void operator()(RetainOp&) {}
    void operator()(ReleaseOp&) {}
  };
  std::visit(Visitor{*this, op, cause}, op.body);
}

void Dispatcher::EndSession(SessionId session) {
  auto command = Shared(switchtower::EndSession{session});
  for (const WorkerLinkPtr& link : view_.links()) link->Send(command);
  gangs_.Sweep();
}

}  // namespace switchtower
