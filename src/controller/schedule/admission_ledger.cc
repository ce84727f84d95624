#include "controller/schedule/admission_ledger.h"

#include <algorithm>

#include <fmt/format.h>

namespace switchtower {

// Gives its bytes back when the last name of the buffer is gone.
struct AdmissionLedger::Charge {
  Charge(AdmissionLedger& ledger, SessionId session, const Need& need)
      : ledger(&ledger), session(session), place(need.place), bytes(need.bytes) {}
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  AdmissionLedger* const ledger;
  const SessionId session;
  const Place place;
  int64_t bytes;

  void GiveBack() {
    if (bytes == 0) return;
    DeviceUse& use = ledger->devices_[place];
    use.total -= bytes;
    auto it = use.by_session.find(session);
    if ((it->second -= bytes) == 0) use.by_session.erase(it);
    bytes = 0;
  }
  ~Charge() { GiveBack(); }
};

AdmissionLedger::~AdmissionLedger() {
  arrays_.clear();
  deferred_.clear();
}

AdmissionLedger::ChargePtr AdmissionLedger::Make(SessionId session, const Need& need) {
  DeviceUse& use = devices_[need.place];
  if (need.bytes > 0) {
    use.total += need.bytes;
    use.by_session[session] += need.bytes;
  }
  return std::make_shared<Charge>(*this, session, need);
}

AdmissionLedger::Verdict AdmissionLedger::Ask(SessionId session, const std::vector<Need>& needs,
                                              const std::vector<ArrayId>& donated, bool anything_in_flight) const {
  if (!enabled()) return Verdict::kFits;
  absl::flat_hash_map<Place, int64_t> taken_over;
  for (ArrayId array : donated) {
    auto it = arrays_.find(ArrayKey{session, array});
    if (it == arrays_.end()) continue;
    for (const auto& [place, charge] : it->second) {
      if (charge.use_count() == 1) taken_over[place] += charge->bytes;
    }
  }
  absl::flat_hash_map<Place, int64_t> wanted;
  for (const Need& need : needs) wanted[need.place] += need.bytes;
  bool fits = true;
  for (const auto& [place, bytes] : wanted) {
    auto it = taken_over.find(place);
    const int64_t room = limit_ - used(place) + (it == taken_over.end() ? 0 : it->second);
    if (bytes > limit_) return Verdict::kNever;
    fits = fits && bytes <= room;
  }
  if (fits) return Verdict::kFits;
  return anything_in_flight || !deferred_.empty() ? Verdict::kWait : Verdict::kNever;
}

absl::Status AdmissionLedger::Explain(SessionId session, const std::string& what, const std::vector<Need>& needs,
                                      const std::function<std::string(const Place&)>& name_place) const {
  absl::flat_hash_map<Place, int64_t> wanted;
  for (const Need& need : needs) wanted[need.place] += need.bytes;
  // The device where most is missing tells the story.
  Place worst = needs.front().place;
  for (const auto& [place, bytes] : wanted) {
    if (bytes + used(place) > wanted[worst] + used(worst) ||
        (bytes + used(place) == wanted[worst] + used(worst) && place < worst)) {
      worst = place;
    }
  }
  const int64_t own = Held(session, worst);
  return absl::ResourceExhaustedError(
      fmt::format("{} needs {} bytes on {}, which has {} of {} bytes free; this session's arrays hold {} bytes, other "
                  "sessions' {} bytes: delete arrays or shard them over more devices",
                  what, wanted[worst], name_place(worst), limit_ - used(worst), limit_, own, used(worst) - own));
}

AdmissionLedger::Token AdmissionLedger::ChargeWhile(SessionId session, const std::vector<Need>& needs) {
  if (!enabled()) return nullptr;
  auto charges = std::make_shared<std::vector<ChargePtr>>();
  for (const Need& need : needs) charges->push_back(Make(session, need));
  return charges;
}

void AdmissionLedger::ChargeArray(ArrayKey array, const std::vector<Need>& needs) {
  if (!enabled()) return;
  auto& charges = arrays_[array];
  for (const Need& need : needs) charges.emplace_back(need.place, Make(array.session, need));
}

void AdmissionLedger::Bind(ArrayKey from, ArrayKey to, const Place& place) {
  if (!enabled()) return;
  auto it = arrays_.find(from);
  if (it == arrays_.end()) return;
  std::vector<ChargePtr> shared;
  for (const auto& [at, charge] : it->second) {
    if (at == place) shared.push_back(charge);
  }
  auto& charges = arrays_[to];
  for (ChargePtr& charge : shared) charges.emplace_back(place, std::move(charge));
}

void AdmissionLedger::Donate(ArrayKey array, absl::flat_hash_map<Place, int64_t>* given) {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return;
  for (const auto& [place, charge] : it->second) {
    if (charge.use_count() == 1) (*given)[place] += charge->bytes;
  }
  arrays_.erase(it);
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
  for (auto& [key, charges] : arrays_) {
    for (auto& [place, charge] : charges) {
      if (place.seat == seat) charge->GiveBack();
    }
  }
  for (Deferred& deferred : deferred_) {
    for (auto& [place, charge] : deferred.charges) {
      if (place.seat == seat) charge->GiveBack();
    }
  }
}

int64_t AdmissionLedger::used(const Place& place) const {
  auto it = devices_.find(place);
  return it == devices_.end() ? 0 : it->second.total;
}

int64_t AdmissionLedger::Held(SessionId session, const Place& place) const {
  auto it = devices_.find(place);
  if (it == devices_.end()) return 0;
  auto held = it->second.by_session.find(session);
  return held == it->second.by_session.end() ? 0 : held->second;
}

}  // namespace switchtower
