#include "controller/sessions/controller_impl.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "controller/sessions/session_impl.h"
#include "controller/sessions/standing_words.h"
#include "controller/sessions/virtual_slices.h"

namespace switchtower {
namespace {

SessionId DrawSessionId() {
  std::random_device random;
  return SessionId{(uint64_t{random()} << 32) | random()};
}

// Stable for a name, over builds and machines (FNV-1a).
uint64_t PlatformId(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

bool SameType(const DeviceType& a, const DeviceType& b) {
  return a.platform == b.platform && a.device_kind == b.device_kind && a.instruction_set == b.instruction_set;
}

}  // namespace

ControllerImpl::ControllerImpl(Options options)
    : options_(std::move(options)), strand_(*options_.pool), poster_(std::make_shared<Poster>(strand_)) {}

ControllerImpl::~ControllerImpl() {
  poster_->Detach();
  strand_.Stop();
  for (auto& [number, entry] : homes_) {
    for (Opening& opening : entry.opening) opening.done(absl::CancelledError("the proxy stops"));
  }
  homes_.clear();
}

void ControllerImpl::OpenSession(const SessionRequest& request, OpenDone done) {
  poster_->Post([this, request, done = std::move(done)]() mutable { Open(request, std::move(done)); });
}

void ControllerImpl::LoseLeases(const absl::Status& why, Task then) {
  poster_->Post([this, why, then = std::move(then)]() mutable {
    common_home_ = 0;
    std::vector<HomeNumber> lost;
    for (auto& [number, entry] : homes_) {
      for (Opening& opening : std::exchange(entry.opening, {})) opening.done(why);
      lost.push_back(number);
    }
    for (HomeNumber number : lost) DropIfUnused(number);
    then();
  });
}

void ControllerImpl::Open(SessionRequest request, OpenDone done) {
  const uint64_t opening = ++openings_;
  const std::string& words = request.virtual_slices.empty() ? options_.virtual_slices : request.virtual_slices;
  absl::StatusOr<std::vector<SliceRequest>> slices = ParseVirtualSlices(words);
  if (!slices.ok()) {
    done(slices.status());
    return;
  }
  if (absl::StatusOr<SessionStanding> standing = ParseStanding(request.weight, request.priority); !standing.ok()) {
    done(standing.status());
    return;
  }
  // Who asks for slices of its own has a home of its own; all others share one.
  const bool asks = !request.virtual_slices.empty();
  const HomeNumber number = asks || common_home_ == 0 ? ++last_home_ : common_home_;
  Entry& entry = homes_[number];
  if (entry.home == nullptr) {
    entry.slices = words;
    entry.slices_asked = slices->size();
    if (absl::Status status = CreateHome(number, entry, *std::move(slices), request); !status.ok()) {
      homes_.erase(number);
      done(std::move(status));
      return;
    }
    if (!asks) common_home_ = number;
  }
  entry.opening.push_back(Opening{opening, std::move(request), std::move(done)});
  OpenWaiting(number);
  if (options_.run_after && !entry.opening.empty()) {
    options_.run_after(options_.open_timeout, [this, poster = poster_, number, opening] {
      poster->Post([this, number, opening] { TimeOut(number, opening); });
    });
  }
}

absl::Status ControllerImpl::CreateHome(HomeNumber number, Entry& entry, std::vector<SliceRequest> slices,
                                        const SessionRequest& request) {
  Home::Options home;
  home.pool = options_.pool;
  home.resource_manager = options_.resource_manager;
  home.connector = options_.connector;
  home.device_memory = options_.device_memory;
  home.launches_ahead = options_.launches_ahead;
  home.policy = options_.policy;
  home.trace = options_.trace;
  home.request.slices = std::move(slices);
  home.request.owner = fmt::format("{} {}", options_.name, request.peer);
  home.on_change = [this, poster = poster_, number](SeatedLease lease) {
    poster->Post([this, number, lease = std::move(lease)]() mutable { OnLease(number, std::move(lease)); });
  };
  ASSIGN_OR_RETURN(entry.home, Home::Create(std::move(home)));
  if (report_times_) entry.home->ReportTimes(true);
  return absl::OkStatus();
}

void ControllerImpl::OnLease(HomeNumber number, SeatedLease lease) {
  auto it = homes_.find(number);
  if (it == homes_.end() || lease.state.version < it->second.lease.state.version) return;
  it->second.lease = std::move(lease);
  OpenWaiting(number);
}

void ControllerImpl::OpenWaiting(HomeNumber number) {
  auto it = homes_.find(number);
  if (it == homes_.end()) return;
  Entry& entry = it->second;
  std::vector<Opening> opening = std::exchange(entry.opening, {});
  for (Opening& one : opening) {
    std::unique_ptr<Session> session = MakeSession(number, entry, one.request);
    if (session == nullptr) {
      entry.opening.push_back(std::move(one));
      continue;
    }
    ++entry.sessions;
    one.done(std::move(session));
  }
}

const DeviceType* ControllerImpl::TypeOf(const SliceInfo& slice) const {
  if (!slice.workers.empty()) return &slice.workers.front().device_type;
  const std::string platform = slice.type.substr(0, slice.type.find(':'));
  for (const DeviceType& type : options_.device_types) {
    if (type.platform == platform) return &type;
  }
  return nullptr;
}

std::unique_ptr<Session> ControllerImpl::MakeSession(HomeNumber number, Entry& entry, const SessionRequest& request) {
  std::vector<SeatedSlice> slices;
  const DeviceType* type = nullptr;
  for (const SeatedSlice& slice : entry.lease.slices) {
    const DeviceType* one = TypeOf(slice.info);
    if (one == nullptr) continue;
    // A session's programs are compiled once, for one type.
    if (type != nullptr && !SameType(*type, *one)) continue;
    type = one;
    slices.push_back(slice);
  }
  if (slices.empty() || slices.size() < entry.slices_asked) return nullptr;
  SessionImpl::Options session;
  session.devices = DeviceTable(slices, type->memory_kinds);
  session.device_type = *type;
  session.home = entry.home->port();
  session.compiler = options_.compiler;
  session.peer = request.peer;
  session.standing = *ParseStanding(request.weight, request.priority);  // checked when it came
  session.on_close = [this, poster = poster_, number](SessionId id) {
    poster->Post([this, number, id] { OnClosed(number, id); });
  };
  SessionDescription& description = session.description;
  description.id = DrawSessionId();
  description.platform_name = options_.platform_name.empty() ? type->platform : options_.platform_name;
  description.platform_version = options_.platform_version;
  description.platform_id = PlatformId(description.platform_name);
  description.device_kind = type->device_kind;
  description.devices = session.devices.devices();
  description.memory_kinds = session.devices.memory_kinds();
  description.memories = session.devices.Memories();
  LogInfo("session {:016x} of {} opens on {} slices, {} devices", description.id.value, request.peer, slices.size(),
          description.devices.size());
  return std::make_unique<SessionImpl>(std::move(session));
}

void ControllerImpl::TimeOut(HomeNumber number, uint64_t opening) {
  auto it = homes_.find(number);
  if (it == homes_.end()) return;
  std::vector<Opening>& waiting = it->second.opening;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].number != opening) continue;
    OpenDone done = std::move(waiting[i].done);
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
    done(absl::UnavailableError(fmt::format(
        "no slice of known size and device type turned up within {} s: start workers, or declare the slices "
        "with --instance_type and --instance_count at the resource manager",
        options_.open_timeout.count() / 1000)));
    break;
  }
  DropIfUnused(number);
}

void ControllerImpl::OnClosed(HomeNumber number, SessionId) {
  auto it = homes_.find(number);
  if (it == homes_.end()) return;
  CHECK(it->second.sessions > 0);
  --it->second.sessions;
  DropIfUnused(number);
}

void ControllerImpl::DropIfUnused(HomeNumber number) {
  auto it = homes_.find(number);
  if (it == homes_.end() || it->second.sessions > 0 || !it->second.opening.empty()) return;
  it->second.home->Snapshot([this, poster = poster_, slices = it->second.slices](HomeSnapshot home) {
    home.slices = slices;
    poster->Post([this, home = std::move(home)]() mutable { Remember(std::move(home)); });
  });
  homes_.erase(it);
  if (common_home_ == number) common_home_ = 0;
}

void ControllerImpl::Remember(HomeSnapshot ended) {
  constexpr size_t kEndedHomesMax = 16;
  ended_homes_.push_back(std::move(ended));
  if (ended_homes_.size() > kEndedHomesMax) ended_homes_.pop_front();
}

void ControllerImpl::Snapshot(Done done) {
  GatherHomes([](Home& home, HomeDone got) { home.Snapshot(std::move(got)); }, std::move(done));
}

void ControllerImpl::Inspect(std::chrono::milliseconds patience, Done done) {
  GatherHomes(
      [this, patience](Home& home, HomeDone got) { home.Inspect(patience, options_.run_after, std::move(got)); },
      std::move(done));
}

void ControllerImpl::ReportTimes(bool on) {
  poster_->Post([this, on] {
    report_times_ = on;
    for (auto& [number, entry] : homes_) entry.home->ReportTimes(on);
  });
}

void ControllerImpl::GatherHomes(absl::AnyInvocable<void(Home&, HomeDone)> ask, Done done) {
  struct Gather {
    ControllerSnapshot snapshot;
    Done done;
    ~Gather() { done(std::move(snapshot)); }  // the last home has answered
    Mutex mutex;
  };
  auto gather = std::make_shared<Gather>();
  gather->done = std::move(done);
  poster_->Post([this, gather, ask = std::move(ask)]() mutable {
    {
      MutexLock lock(gather->mutex);
      gather->snapshot.ended.assign(ended_homes_.begin(), ended_homes_.end());
    }
    for (auto& [number, entry] : homes_) {
      std::vector<std::string> opening;
      for (const Opening& one : entry.opening) opening.push_back(one.request.peer);
      ask(*entry.home, [gather, slices = entry.slices, opening = std::move(opening),
                        compiler = options_.compiler](HomeSnapshot home) {
        home.slices = slices;
        home.opening = opening;
        for (SessionSnapshot& session : home.sessions) {
          session.compiles_waiting = std::min<uint64_t>(compiler->Waiting(session.id), session.compiles);
        }
        MutexLock lock(gather->mutex);
        gather->snapshot.homes.push_back(std::move(home));
      });
    }
  });
}

}  // namespace switchtower
