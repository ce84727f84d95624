// The one order of all operations on the slices of a lease (S-3): takes the sessions' operations, decides which
// goes next, numbers launches and sends commands.
//
//   session strands --Take--> queue of each session --policy, window, admission--> dispatcher --> workers
//                                                                 events <-------------------------'
//
// In a cluster that is well and has room an operation is sent the moment it is taken; queues only fill while
// seats have never had a worker, memory is short or a device has as many launches ahead of it as it should.
// From the queues goes what no earlier operation of its session must precede (OpQueue): launches in the order
// of the policy, all else at once. What the policy wants and can't be sent yet keeps its devices: nothing
// overtakes it on any of them, so that a large gang isn't starved by small ones.
//
// Place:    controller/schedule; one for each lease that this proxy is the home of.
// Threads:  everything on the home strand.
// Lifetime: Stop() fails what is pending and closes the workers' channels.
// Errors:   DATA_LOSS for what touches a lost worker, RESOURCE_EXHAUSTED for what can never fit.
// Invariants: I-2 one order for all devices: commands leave in the order of their LaunchIds. I-8 memory is
//           admitted in that order and for a whole gang. S-5 a delete is never stuck behind what waits for
//           memory, unless that uses the array. Q-1 an operation that overtakes others of its session takes
//           no memory that they may need: only the oldest that needs memory can be refused it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/api/snapshot.h"
#include "controller/api/trace.h"
#include "controller/cluster/cluster_view.h"
#include "controller/schedule/activity_questions.h"
#include "controller/schedule/admission_ledger.h"
#include "controller/schedule/device_time_ledger.h"
#include "controller/schedule/dispatcher.h"
#include "controller/schedule/error_contexts.h"
#include "controller/schedule/in_flight_table.h"
#include "controller/schedule/launch_forecast.h"
#include "controller/schedule/launch_policy.h"
#include "controller/schedule/launch_window.h"
#include "controller/schedule/memory_questions.h"
#include "controller/schedule/op_queue.h"
#include "controller/schedule/ops.h"
#include "controller/schedule/queued_memory.h"
#include "controller/schedule/request_table.h"
#include "controller/schedule/session_flow.h"
#include "controller/schedule/session_launches.h"
#include "controller/schedule/session_standing.h"

namespace switchtower {

class Sequencer : private ClusterView::Observer {
 public:
  struct Options {
    WorkerConnector* connector = nullptr;
    std::function<void(WorkerId)> unreachable;  // tells the resource manager
    std::shared_ptr<Poster> poster;             // of the home strand
    std::shared_ptr<LossLedger> losses;
    int64_t device_memory = 0;  // bytes of each device; 0: not limited
    int32_t launches_ahead = LaunchWindow::Limits{}.launches;
    std::unique_ptr<LaunchPolicy> policy;  // null: FIFO
    std::function<int64_t()> clock;        // ns from any fixed moment; null: the machine's
    TraceRecorder* trace = nullptr;        // null: nobody traces
  };
  explicit Sequencer(Options options);
  ~Sequencer() override;

  void OnLease(SeatedLease lease) { view_.OnLease(std::move(lease)); }
  void AddSession(SessionId session, std::string peer, SessionStanding standing,
                  std::vector<std::pair<DeviceId, Place>> devices, std::shared_ptr<SessionFlow> flow);
  void ServeCalls(SessionId session, std::shared_ptr<ClientCallServer> server);
  void Take(Op op);
  void EndSession(SessionId session, const absl::Status& reason);
  void Stop(const absl::Status& reason);
  HomeSnapshot Snapshot() const;
  // Asks the workers what they are at; `done` runs when all have answered or Expire(number) was called.
  uint64_t AskWorkers(absl::AnyInvocable<void()> done);
  // Has the workers tell when launches and transfers ran, for the trace recorder.
  void ReportTimes(bool on);
  void ExpireQuestion(uint64_t number) { activity_.Expire(number); }
  // What the devices hold; those whose worker is lost are left out.
  void ReadMemory(std::vector<std::pair<DeviceId, Place>> devices, Callback<std::vector<DeviceMemory>> done);

 private:
  struct SessionState {
    std::string peer;
    std::vector<std::pair<DeviceId, Place>> devices;
    std::shared_ptr<SessionFlow> flow;
    std::shared_ptr<ClientCallServer> calls;  // null: calls to the client fail
    SessionStanding standing;
    OpQueue queue;
    QueuedMemory queued_memory;
    absl::flat_hash_map<ProgramId, int64_t> programs;  // executables that name it
    ErrorContexts contexts;
    SessionLaunches launches;
    uint64_t launches_sent = 0;
    int64_t open_calls = 0;  // to the client, not yet answered
  };
  enum class Outcome { kGoes, kFails, kWaitsForWorkers, kWaitsForRoom, kWaitsForMemory, kWaitsForOlder };
  struct Verdict {
    Outcome outcome;
    absl::Status error;  // of kFails
  };

  void OnWorkerIn(const WorkerLinkPtr& link) override;
  void OnWorkerLost(const WorkerLinkPtr& link, const absl::Status& cause) override;
  void OnEvent(const WorkerLinkPtr& link, WorkerEvent event) override;
  void OnSeatDown() override { Pump(); }
  void OnLaunchFailed(const WorkerLink& link, const LaunchFailed& event);
  void OnLaunchTimes(const WorkerLinkPtr& link, const LaunchTimes& event);
  void OnHostCall(const WorkerLinkPtr& link, HostCall event);
  void OnLaunchEnd(LaunchRecord record);
  void AfterEnds();

  // What becomes of the operation now. `queued`: its entry; null if it comes from outside.
  Verdict Judge(const SessionState& session, const Op& op, const OpQueue::Entry* queued) const;
  Verdict JudgeMemory(const SessionState& session, const Op& op, const OpQueue::Entry* queued) const;
  bool HasRoom(const SessionState& session, const LaunchOp& launch) const;
  // False if it must wait; else it was sent or failed, and moved from.
  bool TrySend(SessionState& session, Op& op);
  bool TryQueued(SessionState& session, OpQueue::Entry& entry);
  void Send(SessionState& session, Op op);
  void SendLaunch(SessionState& session, Op op);
  void FailOp(SessionState& session, Op op, const absl::Status& cause);
  void Enqueue(SessionState& session, Op op);
  // Sends the part of a delete that no queued operation needs; what is left must wait.
  void DeleteAhead(SessionState& session, SessionId id, Op op);
  void CountProgram(SessionState& session, const Op& op);
  void WrapAnswers(SessionState& session, Op& op);

  // Whether the policy says when it goes. All else goes as soon as nothing must precede it.
  bool NeedsTurn(const Op& op) const;
  // One round: sends from the queues what can go.
  void Pump();
  void SendWithoutTurn(SessionState& session);
  void GatherCandidates();
  bool IsKept(const DeviceList& devices) const;
  void KeepDevices(const Op& op);
  // Sends it now; recorded while somebody traces. False: a launch that could not be sent after all.
  bool Dispatch(Op op, const LaunchForecast::Expectation& expected = {});
  TraceSpan BeginSpan(const Op& op) const;
  void Trace(const WorkerLink& link, const LaunchTimes& times);
  void Trace(const WorkerLink& link, const TransferTimes& times);
  SessionSnapshot DescribeSession(SessionId id, const SessionState& session,
                                  std::chrono::steady_clock::time_point now) const;

  const std::shared_ptr<Poster> poster_;
  const std::unique_ptr<LaunchPolicy> policy_;
  const LaunchPolicy::Needs policy_needs_;
  const std::function<int64_t()> clock_;
  const std::shared_ptr<LossLedger> losses_;
  TraceRecorder* const trace_;
  ClusterView view_;
  AdmissionLedger admission_;
  InFlightTable in_flight_;
  RequestTable requests_;
  MemoryQuestions memory_;
  ActivityQuestions activity_;
  Dispatcher dispatcher_;
  LaunchWindow window_;
  LaunchForecast forecast_;
  DeviceTimeLedger device_time_;
  std::map<SessionId, SessionState> sessions_;
  uint64_t arrivals_ = 0;
  size_t queued_ = 0;

  // Of the round that is going on.
  bool pumping_ = false;
  uint64_t round_ = 0;
  PlaceMap<uint64_t> kept_in_;                      // the round in which a device is kept for somebody
  std::vector<const DeviceList*> kept_;             // in this round
  std::vector<LaunchCandidate> candidates_;         // scratch
  std::vector<OpQueue::Entry*> candidate_entries_;  // of them
  bool report_times_ = false;
};

}  // namespace switchtower
