// switchtower: one binary, one subcommand for each role.
#include "base/abseil_locks.h"
#include "base/heap.h"
#include "cli/flags.h"

int main(int argc, char** argv) {
  using namespace switchtower;
  DontCheckAbseilLocks();
  LimitHeapArenas();
  CLI::App app{
      "Switchtower: one JAX client drives many accelerator hosts.\n"
      "Start with `switchtower run --slices 2 --hosts 2 --devices 2 -- python your_script.py`."};
  app.require_subcommand(1);
  RoleMain run;
  AddUpCommands(app, run);
  AddResourceManager(app, run);
  AddProxy(app, run);
  AddWorker(app, run);
  AddCompiler(app, run);
  AddInspect(app, run);
  AddProbe(app, run);
  CLI11_PARSE(app, argc, argv);
  return run();
}
