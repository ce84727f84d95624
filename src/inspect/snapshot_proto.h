// The controller's snapshot as the message that the proxy serves.
//
// Place:  inspect; pure.
#pragma once

#include <vector>

#include "controller/api/snapshot.h"
#include "resource_manager/api/cluster.h"
#include "resource_manager/api/slice_home.h"
#include "switchtower/introspection_service.pb.h"
#include "types/home_door.h"

namespace switchtower {

void ToProto(const ControllerSnapshot& in, introspection::Snapshot* out);
// `homes`: of those slices that somebody holds.
void ToProto(const std::vector<SliceInfo>& in, const std::vector<SliceHome>& homes, introspection::Snapshot* out);
void ToProto(const std::vector<RelayedSession>& in, introspection::Snapshot* out);

}  // namespace switchtower
