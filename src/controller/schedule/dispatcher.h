// Turns operations, in the order in which the sequencer hands them over, into commands to workers.
//
// Each command is one value, encoded at most once, and goes to the workers concerned only.
//
// Place:    controller/schedule; below the sequencer, which decides what goes next.
// Threads:  the home strand.
// Errors:   an operation that can't be sent (a seat lost its worker, a worker of another kind) gives each array
//           that it promised that error on all seats that are still there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/cluster/cluster_view.h"
#include "controller/programs/program_directory.h"
#include "controller/schedule/admission_ledger.h"
#include "controller/schedule/gang_table.h"
#include "controller/schedule/in_flight_table.h"
#include "controller/schedule/launch_forecast.h"
#include "controller/schedule/ops.h"
#include "controller/schedule/request_table.h"

namespace switchtower {

struct DispatchTotals {
  uint64_t launches = 0;   // of programs
  uint64_t transfers = 0;  // array copies and reshards
  uint64_t puts = 0;       // arrays made from host bytes
  uint64_t reads = 0;
};

class Dispatcher {
 public:
  Dispatcher(ClusterView& view, const LossLedger& losses, AdmissionLedger& admission, InFlightTable& in_flight,
             RequestTable& requests, std::shared_ptr<Poster> poster)
      : view_(view),
        losses_(losses),
        admission_(admission),
        in_flight_(in_flight),
        requests_(requests),
        poster_(std::move(poster)),
        gangs_(view) {}

  // OK: can be sent. DATA_LOSS: never. `*wait` is set where a seat hasn't had a worker yet.
  absl::Status Check(const Op& op, bool* wait) const;
  // After an OK Check. False: a launch that could not be sent after all; it was failed. `expected` is a launch's.
  bool Send(Op op, const LaunchForecast::Expectation& expected = {});
  void Fail(Op op, absl::Status cause);

  void EndSession(SessionId session);
  void ReleaseProgram(const ProgramId& program) { programs_.Release(program); }
  // A worker has lost data of another one, which may be alive: then only their connection broke.
  void OnDataLoss(LaunchId launch);
  void WorkerLost(const WorkerLinkPtr& link) { programs_.DropWorker(link->info.id); }

  std::vector<ProgramSnapshot> DescribePrograms() const { return programs_.Describe(); }
  LaunchId last_id() const { return last_id_; }
  const DispatchTotals& totals() const { return totals_; }

 private:
  bool SendLaunch(Op& op, LaunchOp& launch, const LaunchForecast::Expectation& expected);
  void SendPut(Op& op, PutOp& put);
  void SendBind(Op& op, BindOp& bind);
  void SendTransfer(Op& op, TransferOp& transfer);
  void SendReady(Op& op, ReadyOp& ready);
  void SendDelete(Op& op, DeleteOp& remove);
  void SendRetain(RetainOp& retain);
  void PutErrors(SessionId session, ArrayId array, const std::vector<Place>& places, const absl::Status& error);
  LaunchId NextId();
  static AdmissionLedger::PurposePtr PurposeOf(const Op& op, std::string creator, LaunchId launch);
  void ChargeArrays(const Op& op, std::string creator, LaunchId launch);
  std::vector<PhysicalDevice> Where(const std::vector<Place>& places) const;

  ClusterView& view_;
  const LossLedger& losses_;
  AdmissionLedger& admission_;
  InFlightTable& in_flight_;
  RequestTable& requests_;
  const std::shared_ptr<Poster> poster_;
  GangDirectory gangs_;
  ProgramDirectory programs_;
  LaunchId last_id_;
  LaunchId told_again_after_;  // the last one when peers were told again
  uint64_t last_stream_ = 0;
  DispatchTotals totals_;
};

}  // namespace switchtower
