// The controller of a proxy: opens sessions on leases and ends the leases with their last session.
//
//   OpenSession --> home (one for all sessions that ask for nothing, one for each that asks) --> SessionImpl
//
// Place:    controller/sessions; what main() builds. Everything named in Options outlives it.
// Threads:  public methods from any thread. The state lives on the controller's strand; Acquire and Release of
//           the resource manager may block it.
// Lifetime: close the sessions first; a session that is left over answers with errors.
// Errors:   OpenSession fails with what the resource manager says, or UNAVAILABLE if no worker or declared slice
//           turned up within open_timeout.
// Invariants: I-3 a lease ends with the last session on it, however that ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/strand.h"
#include "compiler/compile_service.h"
#include "controller/api/session.h"
#include "controller/api/snapshot.h"
#include "controller/cluster/worker_connector.h"
#include "controller/sessions/home.h"
#include "resource_manager/api/cluster.h"

namespace switchtower {

class ControllerImpl : public Controller, public ControllerIntrospection {
 public:
  struct Options {
    ThreadPool* pool = nullptr;  // of two threads at least
    ResourceManagerApi* resource_manager = nullptr;
    CompileService* compiler = nullptr;
    WorkerConnector* connector = nullptr;
    std::string name;            // of this proxy, for people
    std::string virtual_slices;  // what sessions get that ask for nothing; empty: the shared slices
    std::string platform_name;   // empty: the engine's
    std::string platform_version;
    int64_t device_memory = 0;                                 // bytes of each device, 0: not limited
    int32_t launches_ahead = LaunchWindow::Limits{}.launches;  // of each device
    std::string policy = "fifo";                               // MakeLaunchPolicy's names
    TraceRecorder* trace = nullptr;
    // What slices of a platform have that no worker has joined yet; for compiling without chips.
    std::vector<DeviceType> device_types;
    std::chrono::milliseconds open_timeout{60000};
    // Runs a task later, on any thread; null: sessions wait without a deadline.
    std::function<void(std::chrono::milliseconds, Task)> run_after;
  };
  explicit ControllerImpl(Options options);
  ~ControllerImpl() override;

  // The manager that granted the leases is lost, and they are with it. Sessions that wait for slices hear `why`; those
  // that are open stay on their home, which nobody else gets, until they are closed. `then` runs when no session can be
  // opened on those homes any more.
  void LoseLeases(const absl::Status& why, Task then);

  void OpenSession(const SessionRequest& request, Callback<absl::StatusOr<std::unique_ptr<Session>>> done) override;
  void Snapshot(Done done) override;
  void ReportTimes(bool on) override;
  void Inspect(std::chrono::milliseconds patience, Done done) override;

 private:
  using OpenDone = Callback<absl::StatusOr<std::unique_ptr<Session>>>;
  using HomeNumber = uint64_t;
  struct Opening {
    uint64_t number = 0;
    SessionRequest request;
    OpenDone done;
  };
  struct Entry {
    std::unique_ptr<Home> home;
    std::string slices;            // as asked for
    size_t slices_asked = 0;       // 0: shared
    SeatedLease lease;             // the latest
    std::vector<Opening> opening;  // wait for slices of a known size and type
    size_t sessions = 0;
  };
  void Open(SessionRequest request, OpenDone done);
  absl::Status CreateHome(HomeNumber number, Entry& entry, std::vector<SliceRequest> slices,
                          const SessionRequest& request);
  void OnLease(HomeNumber number, SeatedLease lease);
  void OpenWaiting(HomeNumber number);
  // Null while the lease doesn't tell enough yet.
  std::unique_ptr<Session> MakeSession(HomeNumber number, Entry& entry, const SessionRequest& request);
  const DeviceType* TypeOf(const SliceInfo& slice) const;
  void TimeOut(HomeNumber number, uint64_t opening);
  void OnClosed(HomeNumber number, SessionId session);
  void DropIfUnused(HomeNumber number);
  void Remember(HomeSnapshot ended);
  // What `ask` gets from each home.
  using HomeDone = absl::AnyInvocable<void(HomeSnapshot)>;
  void GatherHomes(absl::AnyInvocable<void(Home&, HomeDone)> ask, Done done);

  const Options options_;
  Strand strand_;
  const std::shared_ptr<Poster> poster_;
  std::map<HomeNumber, Entry> homes_;
  HomeNumber last_home_ = 0;
  HomeNumber common_home_ = 0;            // of sessions that ask for nothing; 0: none now
  std::deque<HomeSnapshot> ended_homes_;  // the last few
  uint64_t openings_ = 0;
  bool report_times_ = false;
};

}  // namespace switchtower
