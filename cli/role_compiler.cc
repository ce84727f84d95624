#include "cli/flags.h"
#include "compiler/compiler_main.h"

namespace switchtower {
namespace {

struct Flags {
  int fd = -1;
  std::string pjrt_plugin;
};

}  // namespace

void AddCompiler(CLI::App& app, RoleMain& run) {
  auto flags = std::make_shared<Flags>();
  CLI::App* role = app.add_subcommand("compiler", "compiles programs for a proxy, which starts it; not for people");
  role->group("");  // not in the overview
  AddFlag(role, "fd", flags->fd, "socket to the proxy, inherited")->required();
  AddFlag(role, "pjrt-plugin", flags->pjrt_plugin, "PJRT plug-in that compiles")->required();
  role->callback([flags, &run] { run = [flags] { return CompilerMain(flags->fd, flags->pjrt_plugin); }; });
}

}  // namespace switchtower
