// The parts of HLO text that are smaller than an instruction: shapes, shardings, attributes.
//
// Place:    hlo; used by hlo_text alone.
#pragma once

#include <functional>
#include <string>

#include "xla/service/hlo.pb.h"

namespace switchtower {

// "f32[8,4]{1,0}", "(f32[], s32[2]{0})"; `with_layout` false leaves {1,0} out.
std::string ShapeText(const xla::ShapeProto& shape, bool with_layout);

// "{devices=[2,4]<=[8]}"
std::string ShardingText(const xla::OpSharding& sharding);

// ", name=value" for everything that `instruction` carries besides shape and operands, up to the computations that
// it calls and its custom call target. `name_of` gives a computation's name with "%".
std::string AttributesText(const xla::HloInstructionProto& instruction,
                           const std::function<std::string(int64_t)>& name_of);

}  // namespace switchtower
