// A constant's value as HLO text shows it: short ones whole.
//
// Place:    hlo; used by hlo_text alone.
#pragma once

#include <string>

#include "xla/service/hlo.pb.h"

namespace switchtower {

// What stands in the brackets of constant(...).
std::string LiteralText(const xla::LiteralProto& literal);

}  // namespace switchtower
