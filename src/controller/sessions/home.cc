#include "controller/sessions/home.h"

#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

// Numbers the seats of each lease state as it comes, for sequencer and controller alike.
struct LeaseWatch {
  Mutex mutex;
  SeatMap seats GUARDED_BY(mutex);

  SeatedLease Seat(const LeaseState& state) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    return seats.Seat(state);
  }
};

}  // namespace

Home::Home(const Options& options, std::unique_ptr<LaunchPolicy> policy)
    : resource_manager_(*options.resource_manager), strand_(*options.pool), poster_(std::make_shared<Poster>(strand_)) {
  Sequencer::Options sequencer;
  sequencer.connector = options.connector;
  sequencer.unreachable = [rm = options.resource_manager](WorkerId worker) { rm->ReportUnreachable(worker); };
  sequencer.poster = poster_;
  sequencer.losses = losses_;
  sequencer.device_memory = options.device_memory;
  sequencer.launches_ahead = options.launches_ahead;
  sequencer.policy = std::move(policy);
  sequencer.trace = options.trace;
  sequencer_ = std::make_unique<Sequencer>(std::move(sequencer));
  port_ = std::make_shared<HomePort>(poster_, *sequencer_, losses_);
}

absl::StatusOr<std::unique_ptr<Home>> Home::Create(Options options) {
  ASSIGN_OR_RETURN(std::unique_ptr<LaunchPolicy> policy, MakeLaunchPolicy(options.policy));
  std::unique_ptr<Home> home(new Home(options, std::move(policy)));
  auto watch = std::make_shared<LeaseWatch>();
  absl::StatusOr<LeaseId> lease = options.resource_manager->Acquire(
      options.request, [watch, poster = home->poster_, sequencer = home->sequencer_.get(),
                        on_change = options.on_change](const LeaseState& state) {
        SeatedLease seated = watch->Seat(state);
        poster->Post([sequencer, seated] { sequencer->OnLease(seated); });
        on_change(std::move(seated));
      });
  if (!lease.ok()) return lease.status();
  home->lease_ = *lease;
  return home;
}

Home::~Home() {
  poster_->Post([this] { sequencer_->Stop(absl::CancelledError("the controller gives the lease back")); });
  poster_->Detach();
  strand_.Stop();
  if (lease_.has_value()) resource_manager_.Release(*lease_);
}

void Home::Snapshot(absl::AnyInvocable<void(HomeSnapshot)> done) {
  poster_->Post([this, done = std::move(done)]() mutable { done(sequencer_->Snapshot()); });
}

void Home::Inspect(std::chrono::milliseconds patience, const RunAfter& run_after,
                   absl::AnyInvocable<void(HomeSnapshot)> done) {
  poster_->Post([this, poster = poster_, patience, run_after, done = std::move(done)]() mutable {
    const uint64_t question =
        sequencer_->AskWorkers([this, done = std::move(done)]() mutable { done(sequencer_->Snapshot()); });
    if (!run_after) return;
    run_after(patience,
              [this, poster, question] { poster->Post([this, question] { sequencer_->ExpireQuestion(question); }); });
  });
}

}  // namespace switchtower
