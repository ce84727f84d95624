#include "cli/locations.h"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

namespace switchtower {

namespace fs = std::filesystem;

std::string BinaryPath() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

absl::StatusOr<std::string> DefaultPjrtPlugin() {
  if (const char* path = std::getenv("SWITCHTOWER_PJRT_PLUGIN")) return std::string(path);
  const std::string pattern = fs::path(BinaryPath()).parent_path().string() +
                              "/venv/lib/python3*/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";
  glob_t found;
  std::string path;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0) path = found.gl_pathv[0];
  globfree(&found);
  if (!path.empty()) return path;
  return absl::NotFoundError(
      fmt::format("no PJRT plug-in at {}: run `make build`, or name one with --pjrt-plugin PATH", pattern));
}

std::string PythonPath() {
  const fs::path python = fs::path(BinaryPath()).parent_path().parent_path() / "python";
  std::error_code error;
  return fs::is_directory(python / "jax_plugins", error) ? python.string() : "";
}

}  // namespace switchtower
