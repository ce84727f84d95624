#include "compiler/program_key.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "base/net/unique_fd.h"
#include "compiler/program_cache.h"

namespace switchtower {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    CHECK(context_ != nullptr);
    CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  // Parts are length-prefixed, so that no two lists of parts are one stream.
  void Add(std::string_view part) {
    const uint64_t size = part.size();
    CHECK(EVP_DigestUpdate(context_.get(), &size, sizeof(size)) == 1);
    CHECK(EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1);
  }
  std::string Hex128() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    CHECK(EVP_DigestFinal_ex(context_.get(), digest, nullptr) == 1);
    std::string hex;
    for (int i = 0; i < 16; ++i) hex += fmt::format("{:02x}", digest[i]);
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

ProgramId ProgramKey(std::string_view module, const ClientOptions& options, const DeviceType& device_type,
                     std::string_view compiler_version) {
  Sha256 hash;
  hash.Add(fmt::format("switchtower program {}", kProgramFormatVersion));
  hash.Add(compiler_version);
  hash.Add(device_type.platform);
  hash.Add(device_type.device_kind);
  hash.Add(device_type.instruction_set);
  for (const std::string& kind : device_type.memory_kinds) hash.Add(kind);
  hash.Add(CanonicalBytes(options));
  hash.Add(module);
  return ProgramId{hash.Hex128()};
}

absl::StatusOr<std::string> PluginVersion(const std::string& plugin_path) {
  UniqueFd fd(open(plugin_path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) {
    return absl::FailedPreconditionError(fmt::format("can't open {}: {}", plugin_path, std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return absl::FailedPreconditionError(fmt::format("{} is no plug-in", plugin_path));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return absl::FailedPreconditionError(fmt::format("can't map {}: {}", plugin_path, std::strerror(errno)));
  }
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  munmap(data, size);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace switchtower
