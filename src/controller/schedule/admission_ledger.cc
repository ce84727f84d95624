#include "controller/schedule/admission_ledger.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "absl/time/clock.h"
#include "wire/ifrt/memory_report.h"

namespace switchtower {
namespace {

// A client may describe arrays as large as an int64 counts; nothing has that much room, so the sum needn't be exact.
int64_t AddBytes(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

absl::flat_hash_map<Place, int64_t> Wanted(const std::vector<AdmissionLedger::Need>& needs) {
  absl::flat_hash_map<Place, int64_t> wanted;
  for (const AdmissionLedger::Need& need : needs) {
    int64_t& bytes = wanted[need.place];
    bytes = AddBytes(bytes, need.bytes);
  }
  return wanted;
}

}  // namespace

// Gives its bytes back when the last name of the buffer is gone.
struct AdmissionLedger::Charge {
  Charge(AdmissionLedger& ledger, PurposePtr purpose, const Need& need)
      : ledger(&ledger), purpose(std::move(purpose)), place(need.place), bytes(need.bytes) {
    if (bytes == 0) return;
    DeviceUse& use = ledger.devices_[place];
    use.total += bytes;
    use.charges.insert(this);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  AdmissionLedger* const ledger;
  const PurposePtr purpose;
  const Place place;
  int64_t bytes;

  void GiveBack() {
    if (bytes == 0) return;
    DeviceUse& use = ledger->devices_[place];
    use.total -= bytes;
    use.charges.erase(this);
    bytes = 0;
  }
  ~Charge() { GiveBack(); }
};

AdmissionLedger::~AdmissionLedger() {
  arrays_.clear();
  deferred_.clear();
}

AdmissionLedger::ChargePtr AdmissionLedger::Make(const PurposePtr& purpose, const Need& need) {
  return std::make_shared<Charge>(*this, purpose, need);
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
  bool fits = true;
  for (const auto& [place, bytes] : Wanted(needs)) {
    auto it = taken_over.find(place);
    const int64_t room = limit_ - used(place) + (it == taken_over.end() ? 0 : it->second);
    if (bytes > limit_) return Verdict::kNever;
    fits = fits && bytes <= room;
  }
  if (fits) return Verdict::kFits;
  return anything_in_flight || !deferred_.empty() ? Verdict::kWait : Verdict::kNever;
}

MemoryReport AdmissionLedger::Report(SessionId session, const Place& place, const Names& names) const {
  constexpr size_t kHoldersMax = 64;
  MemoryReport report;
  report.device = names.place(place);
  std::map<std::pair<uint64_t, std::string>, MemoryHolder> holders;
  auto use = devices_.find(place);
  if (use != devices_.end()) {
    for (const Charge* charge : use->second.charges) {
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
  absl::flat_hash_map<Place, int64_t> wanted = Wanted(needs);
  // The device where most is missing tells the story.
  Place worst = needs.front().place;
  for (const auto& [place, bytes] : wanted) {
    const int64_t here = AddBytes(bytes, used(place)), there = AddBytes(wanted[worst], used(worst));
    if (here > there || (here == there && place < worst)) worst = place;
  }
  const MemoryReport report = Report(session, worst, names);
  int64_t others = 0;
  if (auto use = devices_.find(worst); use != devices_.end()) {
    for (const Charge* charge : use->second.charges) {
      if (charge->purpose->session != session) others += charge->bytes;
    }
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
  auto& charges = arrays_[array];
  for (const Need& need : needs) charges.emplace_back(need.place, Make(purpose, need));
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

}  // namespace switchtower
