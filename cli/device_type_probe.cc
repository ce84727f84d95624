#include "cli/device_type_probe.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "cli/child_process.h"
#include "cli/locations.h"

namespace switchtower {

std::string FormatDeviceType(const DeviceType& type) {
  std::string text =
      fmt::format("platform {}\nkind {}\ninstructions {}\n", type.platform, type.device_kind, type.instruction_set);
  for (const std::string& kind : type.memory_kinds) text += fmt::format("memory {}\n", kind);
  return text;
}

absl::StatusOr<DeviceType> ParseDeviceType(const std::string& text) {
  DeviceType type;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    if (key == "platform") type.platform = value;
    if (key == "kind") type.device_kind = value;
    if (key == "instructions") type.instruction_set = value;
    if (key == "memory") type.memory_kinds.push_back(value);
  }
  if (type.platform.empty() || type.device_kind.empty()) {
    return absl::InvalidArgumentError(fmt::format("no device type in \"{}\"", text));
  }
  return type;
}

absl::StatusOr<DeviceType> ProbeDeviceTypeInChild(const std::string& pjrt_plugin) {
  ChildOptions options;
  options.argv = {BinaryPath(), "probe", "--pjrt-plugin=" + pjrt_plugin};
  options.pipe_stdout = true;
  ASSIGN_OR_RETURN(const ChildProcess child, Spawn(options));
  fcntl(child.stdout_fd, F_SETFL, 0);  // wait for its words
  std::string text;
  char buffer[4096];
  ssize_t count;
  while ((count = read(child.stdout_fd, buffer, sizeof(buffer))) > 0 || (count < 0 && errno == EINTR)) {
    if (count > 0) text.append(buffer, count);
  }
  close(child.stdout_fd);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child.pid, &status, 0));
  if (status != 0) {
    return absl::FailedPreconditionError(
        fmt::format("plug-in {} can't be used ({}); its words are above", pjrt_plugin, DescribeExit(status)));
  }
  return ParseDeviceType(text);
}

}  // namespace switchtower
