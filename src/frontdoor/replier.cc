#include "frontdoor/replier.h"

#include <string>

#include "absl/strings/cord.h"
#include "controller/api/session.h"
#include "wire/ifrt/status.h"

namespace switchtower {

absl::Status AttachUserContext(absl::Status status, uint64_t user_context) {
  if (!status.ok() && user_context != 0 && !status.GetPayload(kUserContextPayload).has_value()) {
    status.SetPayload(kUserContextPayload, absl::Cord(std::to_string(user_context)));
  }
  return status;
}

void Replier::Ok(IfrtResponse response) const {
  if (auto sink = sink_.lock()) {
    response.mutable_response_metadata()->set_op_id(context_.op_id);
    if (context_.numbered) {
      user_contexts_->Stamp(response.mutable_response_metadata());
    } else {
      response.mutable_response_metadata()->set_seq_num(UserContextTable::kUnnumbered);
    }
    sink->Send(std::move(response));
  }
}

void Replier::Fail(const absl::Status& status) const {
  const absl::Status full = AttachUserContext(status, context_.user_context);
  user_contexts_->Remember(full);
  SendError(full);
}

void Replier::FailTheCall(const absl::Status& status) const {
  absl::Status plain = status;
  plain.ErasePayload(kUserContextPayload);
  SendError(plain);
}

void Replier::SendError(const absl::Status& status) const {
  if (auto sink = sink_.lock()) {
    IfrtResponse response;
    response.mutable_response_metadata()->set_op_id(context_.op_id);
    ToProto(status, response.mutable_response_metadata()->mutable_status());
    sink->Send(std::move(response));
  }
}

void Replier::Done(const absl::Status& status, IfrtResponse response) const {
  if (status.ok()) {
    Ok(std::move(response));
  } else {
    Fail(status);
  }
}

}  // namespace switchtower
