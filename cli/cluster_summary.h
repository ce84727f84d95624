// How many launches and bytes went where, as a table for people.
#pragma once

#include <string>

#include "controller/api/snapshot.h"

namespace switchtower {

// Waits for the controller's snapshot.
std::string SummaryOf(ControllerIntrospection& controller);
std::string FormatSummary(const ControllerSnapshot& snapshot);

}  // namespace switchtower
