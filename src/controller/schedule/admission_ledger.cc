#include "controller/schedule/admission_ledger.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "absl/time/clock.h"
#include "types/shape.h"
#include "wire/ifrt/memory_report.h"

namespace switchtower {
namespace {

absl::flat_hash_map<Place, int64_t> ByPlace(const std::vector<AdmissionLedger::Need>& needs) {
  absl::flat_hash_map<Place, int64_t> wanted;
  for (const AdmissionLedger::Need& need : needs) {
    for (const Place& place : need.devices->places) {
      int64_t& bytes = wanted[place];
      bytes = AddBytes(bytes, need.bytes);
    }
  }
  return wanted;
}

// Their sum, if all are for the devices of this list.
std::optional<int64_t> SumOn(const DeviceListPtr& devices, const std::vector<AdmissionLedger::Need>& needs) {
  int64_t sum = 0;
  for (const AdmissionLedger::Need& need : needs) {
    if (need.devices != devices) return std::nullopt;
    sum = AddBytes(sum, need.bytes);
  }
  return sum;
}

}  // namespace

// Gives its bytes back when the last name of the buffer is gone.
struct AdmissionLedger::Charge {
  Charge(AdmissionLedger& ledger, PurposePtr purpose, const Need& need)
      : ledger(&ledger),
        purpose(std::move(purpose)),
        devices(need.devices),
        bytes(need.bytes),
        after_loss(ledger.losses_) {
    if (bytes == 0) return;
    ledger.used_.Add(*devices, bytes);
    ledger.charges_.insert(this);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (bytes == 0) return;
    ledger->charges_.erase(this);
    if (after_loss == ledger->losses_) {
      ledger->used_.Add(*devices, -bytes);
      return;
    }
    for (const DeviceList::WholeSeat& whole : devices->whole_seats) {
      if (HoldsOn(whole.seat)) ledger->used_.AddWhole(whole.seat, -bytes);
    }
    for (const Place& place : devices->loose) {
      if (HoldsOn(place.seat)) ledger->used_.AddAt(place, -bytes);
    }
  }
  bool HoldsOn(int32_t seat) const {
    return static_cast<size_t>(seat) >= ledger->emptied_.size() || ledger->emptied_[seat] <= after_loss;
  }

  AdmissionLedger* const ledger;
  const PurposePtr purpose;
  const DeviceListPtr devices;
  const int64_t bytes;        // on each of them
  const uint64_t after_loss;  // the last one before it
};

AdmissionLedger::~AdmissionLedger() {
  arrays_.clear();
  deferred_.clear();
}

AdmissionLedger::ChargePtr AdmissionLedger::Make(const PurposePtr& purpose, const Need& need) {
  return std::make_shared<Charge>(*this, purpose, need);
}

std::vector<AdmissionLedger::Need> AdmissionLedger::HeldAlone(const Holding& holding) const {
  std::vector<Need> held;
  for (const ChargePtr& charge : holding.alike) held.push_back({charge->devices, charge->bytes});
  for (const auto& [place, charge] : holding.by_place) {
    if (charge.use_count() == 1) held.push_back({charge->devices, charge->bytes});
  }
  return held;
}

AdmissionLedger::Verdict AdmissionLedger::Ask(SessionId session, const std::vector<Need>& needs,
                                              const std::vector<ArrayId>& donated, bool anything_in_flight) const {
  if (!enabled() || needs.empty()) return Verdict::kFits;
  std::vector<Need> taken_over;
  for (ArrayId array : donated) {
    auto it = arrays_.find(ArrayKey{session, array});
    if (it == arrays_.end()) continue;
    for (Need& need : HeldAlone(it->second)) taken_over.push_back(std::move(need));
  }
  bool fits = true;
  const DeviceListPtr& devices = needs.front().devices;
  const std::optional<int64_t> bytes = SumOn(devices, needs), given = SumOn(devices, taken_over);
  if (bytes.has_value() && given.has_value()) {
    if (*bytes > limit_) return Verdict::kNever;
    fits = used_.AllOf(*devices, nullptr, [&](int64_t used) { return *bytes <= limit_ - used + *given; });
  } else {
    const absl::flat_hash_map<Place, int64_t> given_at = ByPlace(taken_over);
    for (const auto& [place, wanted] : ByPlace(needs)) {
      auto it = given_at.find(place);
      if (wanted > limit_) return Verdict::kNever;
      fits = fits && wanted <= limit_ - used(place) + (it == given_at.end() ? 0 : it->second);
    }
  }
  if (fits) return Verdict::kFits;
  return anything_in_flight || !deferred_.empty() ? Verdict::kWait : Verdict::kNever;
}

std::vector<const AdmissionLedger::Charge*> AdmissionLedger::ChargesOn(const Place& place) const {
  absl::flat_hash_map<const DeviceList*, bool> has;
  std::vector<const Charge*> found;
  for (const Charge* charge : charges_) {
    auto [it, added] = has.try_emplace(charge->devices.get(), false);
    if (added) {
      const std::vector<Place>& places = charge->devices->places;
      it->second = std::find(places.begin(), places.end(), place) != places.end();
    }
    if (it->second && charge->HoldsOn(place.seat)) found.push_back(charge);
  }
  return found;
}

MemoryReport AdmissionLedger::Report(SessionId session, const Place& place, const Names& names) const {
  constexpr size_t kHoldersMax = 64;
  MemoryReport report;
  report.device = names.place(place);
  std::map<std::pair<uint64_t, std::string>, MemoryHolder> holders;
  for (const Charge* charge : ChargesOn(place)) {
    const Purpose& purpose = *charge->purpose;
    const bool own = purpose.session == session;
    const uint64_t context = own ? purpose.user_context : 0;
    const std::string creator = own ? purpose.creator : "other sessions";
    MemoryHolder& holder = holders[{context, creator}];
    holder.user_context = context;
    holder.creator = creator;
    const bool pending = purpose.launch != LaunchId{} && names.is_running(purpose.launch);
    ++(pending ? holder.pending_count : holder.ready_count);
    (pending ? holder.pending_bytes : holder.ready_bytes) += charge->bytes;
  }
  for (auto& [key, holder] : holders) report.holders.push_back(std::move(holder));
  std::stable_sort(report.holders.begin(), report.holders.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes() > b.bytes(); });
  if (report.holders.size() > kHoldersMax) {
    report.warning = fmt::format("{} smaller holders are left out", report.holders.size() - kHoldersMax);
    report.holders.resize(kHoldersMax);
  }
  return report;
}

absl::Status AdmissionLedger::Explain(SessionId session, const std::string& what, const std::vector<Need>& needs,
                                      const Names& names) const {
  absl::flat_hash_map<Place, int64_t> wanted = ByPlace(needs);
  // The device where most is missing tells the story.
  Place worst = needs.front().devices->places.front();
  for (const auto& [place, bytes] : wanted) {
    const int64_t here = AddBytes(bytes, used(place)), there = AddBytes(wanted[worst], used(worst));
    if (here > there || (here == there && place < worst)) worst = place;
  }
  const MemoryReport report = Report(session, worst, names);
  int64_t others = 0;
  for (const Charge* charge : ChargesOn(worst)) {
    if (charge->purpose->session != session) others += charge->bytes;
  }
  absl::Status error = absl::ResourceExhaustedError(
      fmt::format("{} needs {} bytes on {}, which has {} of {} bytes free; this session's arrays hold {} bytes, other "
                  "sessions' {} bytes: delete arrays or shard them over more devices",
                  what, wanted[worst], report.device, limit_ - used(worst), limit_, used(worst) - others, others));
  AttachMemoryReport(report, absl::Now(), &error);
  return error;
}

AdmissionLedger::Token AdmissionLedger::ChargeWhile(const PurposePtr& purpose, const std::vector<Need>& needs) {
  if (!enabled()) return nullptr;
  auto charges = std::make_shared<std::vector<ChargePtr>>();
  for (const Need& need : needs) charges->push_back(Make(purpose, need));
  return charges;
}

void AdmissionLedger::ChargeArray(ArrayKey array, const PurposePtr& purpose, const std::vector<Need>& needs) {
  if (!enabled()) return;
  Holding& holding = arrays_[array];
  for (const Need& need : needs) holding.alike.push_back(Make(purpose, need));
}

void AdmissionLedger::Split(Holding& holding) {
  for (const ChargePtr& charge : std::exchange(holding.alike, {})) {
    for (const Place& place : charge->devices->places) {
      if (!charge->HoldsOn(place.seat)) continue;
      const Need part{charge->devices->places.size() == 1 ? charge->devices : DeviceList::Make({place}), charge->bytes};
      holding.by_place.insert_or_assign(place, charge->ledger->Make(charge->purpose, part));
    }
  }
}

void AdmissionLedger::Bind(ArrayKey from, ArrayKey to, const Place& place) {
  if (!enabled()) return;
  auto it = arrays_.find(from);
  if (it == arrays_.end()) return;
  Split(it->second);
  auto charge = it->second.by_place.find(place);
  if (charge == it->second.by_place.end()) return;
  const ChargePtr shared = charge->second;
  arrays_[to].by_place.insert_or_assign(place, shared);
}

void AdmissionLedger::Donate(ArrayKey array, std::vector<Need>* given) {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return;
  for (Need& need : HeldAlone(it->second)) given->push_back(std::move(need));
  arrays_.erase(it);
}

std::vector<AdmissionLedger::Need> AdmissionLedger::Excess(const std::vector<Need>& given,
                                                           const std::vector<Need>& needs) {
  if (given.empty()) return {};
  const DeviceListPtr& devices = given.front().devices;
  const std::optional<int64_t> has = SumOn(devices, given), wants = SumOn(devices, needs);
  if (has.has_value() && wants.has_value()) {
    return *has > *wants ? std::vector<Need>{{devices, *has - *wants}} : std::vector<Need>();
  }
  std::vector<Need> excess;
  const absl::flat_hash_map<Place, int64_t> wanted = ByPlace(needs);
  for (const auto& [place, bytes] : ByPlace(given)) {
    auto it = wanted.find(place);
    const int64_t left = bytes - (it == wanted.end() ? 0 : it->second);
    if (left > 0) excess.push_back({DeviceList::Make({place}), left});
  }
  return excess;
}

void AdmissionLedger::Delete(ArrayKey array, LaunchId last_sent) {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return;
  deferred_.push_back(Deferred{last_sent, std::move(it->second)});
  arrays_.erase(it);
}

void AdmissionLedger::Ended(bool any_running, LaunchId oldest_running) {
  while (!deferred_.empty() && (!any_running || deferred_.front().after < oldest_running)) {
    deferred_.pop_front();
  }
}

void AdmissionLedger::DropSession(SessionId session, LaunchId last_sent) {
  std::vector<ArrayKey> arrays;
  for (const auto& [key, charges] : arrays_) {
    if (key.session == session) arrays.push_back(key);
  }
  for (const ArrayKey& key : arrays) Delete(key, last_sent);
}

void AdmissionLedger::DropSeat(int32_t seat) {
  if (!enabled()) return;
  used_.Clear(seat);
  if (static_cast<size_t>(seat) >= emptied_.size()) emptied_.resize(static_cast<size_t>(seat) + 1);
  emptied_[seat] = ++losses_;
}

}  // namespace switchtower
