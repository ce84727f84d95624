// The programs that every FakeEngine has: "identity", "add_one", "sum" and "fail".
//
// Place:  worker/engine; pure functions of their arguments.
#pragma once

#include "worker/engine/fake_engine.h"

namespace switchtower {

void RegisterFakePrograms(FakeEngine& engine);

}  // namespace switchtower
