#include "worker/engine/device_probe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/core.h>

namespace switchtower {
namespace {

constexpr uint64_t kFnvStart = 14695981039346656037ULL;

uint64_t Fnv1a(uint64_t hash, const std::string& text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// The value of the first line "key : value".
std::string FindField(const std::string& cpuinfo, const std::string& key) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const size_t start = line.find_first_not_of(' ', colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// Flags in an order of ours: kernels list them differently.
std::string SortedWords(const std::string& text) {
  std::istringstream words(text);
  std::set<std::string> sorted;
  for (std::string word; words >> word;) sorted.insert(word);
  std::string result;
  for (const std::string& word : sorted) result += word + " ";
  return result;
}

std::string ReadFile(const std::string& path, size_t limit) {
  std::ifstream file(path, std::ios::binary);
  std::string text(limit, '\0');
  file.read(text.data(), static_cast<std::streamsize>(limit));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// The build id lies in the first pages of an ELF file, so these and the size tell builds apart without
// reading all of it.
std::string IdentifyBuild(const pjrt::Plugin& plugin) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(plugin.path(), error);
  const uint64_t head = Fnv1a(kFnvStart, ReadFile(plugin.path(), 64 * 1024));
  return fmt::format("{} {} {}.{}", size, head, plugin.api_major(), plugin.api_minor());
}

}  // namespace

std::string DescribeInstructionSet(const std::string& cpuinfo, const std::string& build) {
  std::string model = FindField(cpuinfo, "model name");
  if (model.empty()) model = FindField(cpuinfo, "CPU part");  // arm64
  if (model.empty()) model = "unknown CPU";
  std::string flags = FindField(cpuinfo, "flags");
  if (flags.empty()) flags = FindField(cpuinfo, "Features");  // arm64
  return fmt::format("{} {:016x}", model, Fnv1a(Fnv1a(kFnvStart, SortedWords(flags)), build));
}

absl::StatusOr<DeviceType> ProbeDeviceType(const pjrt::Client& client) {
  if (client.devices().empty()) {
    return absl::FailedPreconditionError(
        fmt::format("plug-in {} has no devices on this machine", client.plugin().path()));
  }
  const pjrt::Device& device = client.devices()[0];
  DeviceType type;
  type.platform = client.platform_name();
  type.device_kind = device.kind;
  type.instruction_set = DescribeInstructionSet(ReadFile("/proc/cpuinfo", 1 << 20), IdentifyBuild(client.plugin()));
  if (device.default_memory != nullptr) type.memory_kinds.push_back(device.default_memory->kind);
  for (const pjrt::Memory* memory : device.memories) {
    if (memory != device.default_memory) type.memory_kinds.push_back(memory->kind);
  }
  return type;
}

}  // namespace switchtower
