// The controller's snapshot as the message that the proxy serves.
//
// Place:  inspect; pure.
#pragma once

#include <vector>

#include "controller/api/snapshot.h"
#include "resource_manager/api/cluster.h"
#include "switchtower/introspection_service.pb.h"

namespace switchtower {

void ToProto(const ControllerSnapshot& in, introspection::Snapshot* out);
void ToProto(const std::vector<SliceInfo>& in, introspection::Snapshot* out);

}  // namespace switchtower
