// "file.py:123" for an HLO instruction: where the user's program asked for it.
#pragma once

#include <string>

#include "xla/service/hlo.pb.h"

namespace switchtower {

// Empty if the program carries no location. Ids that point nowhere count as none.
std::string SourceOf(const xla::HloModuleProto& module, const xla::OpMetadata& metadata);

}  // namespace switchtower
