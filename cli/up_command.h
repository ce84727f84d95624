// `switchtower up` and `switchtower run`: a cluster in the foreground, alone or around one command.
#pragma once

#include <string>
#include <vector>

#include "cli/local_cluster.h"

namespace switchtower {

// Until Ctrl-C. The exit code of the process.
int UpCommand(const LocalClusterOptions& options);
// Until `command` ends, whose exit code is passed on.
int RunCommand(const LocalClusterOptions& options, const std::vector<std::string>& command);

}  // namespace switchtower
