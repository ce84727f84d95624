// A memory report as a payload of a status, in the form that clients print (their "object-store summary").
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/api/memory_report.h"

namespace switchtower {

void AttachMemoryReport(const MemoryReport& report, absl::Time now, absl::Status* status);

}  // namespace switchtower
