// Conversions between the resource manager's protos and our values. Everything decoded is checked for
// plausible sizes; meaning is checked by ClusterTable.
#pragma once

#include "absl/status/statusor.h"
#include "resource_manager/api/cluster.h"
#include "switchtower/resource_manager_service.pb.h"

namespace switchtower {

// Protocol between processes of one cluster; all of one version (proto/VERSION.md).
inline constexpr uint32_t kResourceManagerProtocol = 1;

void Encode(const WorkerInfo& worker, WorkerProto* proto);
void Encode(const SliceInfo& slice, SliceProto* proto);
void Encode(const LeaseState& state, LeaseStateProto* proto);
void Encode(const absl::Status& status, ErrorProto* proto);

absl::StatusOr<WorkerInfo> Decode(const WorkerProto& proto);
absl::StatusOr<SliceInfo> Decode(const SliceProto& proto);
absl::StatusOr<LeaseState> Decode(const LeaseStateProto& proto);
absl::Status Decode(const ErrorProto& proto);

}  // namespace switchtower
