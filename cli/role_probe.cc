// Tells what the devices of a plug-in are, in a process of its own.
#include <unistd.h>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "cli/device_type_probe.h"
#include "cli/flags.h"
#include "worker/engine/pjrt_engine.h"

namespace switchtower {

void AddProbe(CLI::App& app, RoleMain& run) {
  auto plugin = std::make_shared<std::string>();
  CLI::App* role = app.add_subcommand("probe", "prints the device type of a plug-in; used by a proxy");
  role->group("");  // not in the overview
  AddFlag(role, "pjrt-plugin", *plugin, "PJRT plug-in (.so)")->required();
  role->callback([plugin, &run] {
    run = [plugin] {
      EngineOptions options;
      options.plugin_path = *plugin;
      const auto engine = CreatePjrtEngine(options);
      if (!engine.ok()) return Fail(engine.status());
      fmt::print("{}", FormatDeviceType((*engine)->device_type()));
      std::fflush(stdout);
      _exit(0);  // no need to take the engine down in order
    };
  });
}

}  // namespace switchtower
