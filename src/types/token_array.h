// What stands for a token where arrays go in and out of a program: jax begins a chain of ordered effects with such an
// array, and takes what programs give as the next one.
#pragma once

#include "types/shape.h"

namespace switchtower {

inline Shape TokenArray() { return Shape{DType::kPred, {0}}; }

}  // namespace switchtower
