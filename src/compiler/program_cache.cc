#include "compiler/program_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/net/unique_fd.h"
#include "base/status_macros.h"
#include "compiler/program_file.h"

namespace switchtower {
namespace {

constexpr std::string_view kSuffix = ".program";
constexpr std::string_view kTemporary = ".tmp-";
constexpr time_t kTemporarySeconds = 3600;

absl::Status MakeFolder(const std::string& folder) {
  for (size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
    const std::string part = folder.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::FailedPreconditionError(
          fmt::format("can't make the program cache's folder {}: {}", part, std::strerror(errno)));
    }
    if (at == std::string::npos) return absl::OkStatus();
  }
}

// Whoever can write here can make us run their code.
absl::Status CheckPrivate(const std::string& folder) {
  struct stat info = {};
  if (stat(folder.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(fmt::format("can't look at {}: {}", folder, std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) return absl::FailedPreconditionError(fmt::format("{} is no folder", folder));
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        fmt::format("the program cache's folder {} belongs to user {}, not to {}", folder, info.st_uid, geteuid()));
  }
  if ((info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("the program cache's folder {} can be written by others (mode {:o}); native code is loaded from "
                    "it, so make it private: chmod 700",
                    folder, info.st_mode & 0777));
  }
  return absl::OkStatus();
}

bool IsHash(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool IsProgramFile(std::string_view name) {
  return name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix;
}

// NOT_FOUND if it isn't there.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    if (errno == ENOENT) return absl::NotFoundError("none");
    return absl::FailedPreconditionError(std::strerror(errno));
  }
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return absl::FailedPreconditionError(std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError("not a file of this user");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  futimens(fd.get(), nullptr);  // when it was used last, for Trim
  return bytes;
}

absl::Status WriteFile(const std::string& folder, const std::string& path, const std::string& bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}/{}{}-{}", folder, kTemporary, getpid(), counter++);
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return absl::FailedPreconditionError(fmt::format("{}: {}", temporary, std::strerror(errno)));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  if (done < bytes.size() || rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status error = absl::FailedPreconditionError(fmt::format("{}: {}", path, std::strerror(errno)));
    unlink(temporary.c_str());
    return error;
  }
  return absl::OkStatus();
}

}  // namespace

std::string ProgramCache::DefaultFolder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && cache[0] == '/') {
    return std::string(cache) + "/switchtower/programs";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    return std::string(home) + "/.cache/switchtower/programs";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ProgramCache>> ProgramCache::Open(Options options) {
  while (options.folder.size() > 1 && options.folder.back() == '/') options.folder.pop_back();
  if (options.folder.empty()) return absl::FailedPreconditionError("the program cache has no folder");
  RETURN_IF_ERROR(MakeFolder(options.folder));
  RETURN_IF_ERROR(CheckPrivate(options.folder));
  std::unique_ptr<ProgramCache> cache(new ProgramCache(std::move(options)));
  cache->Trim();
  return cache;
}

std::string ProgramCache::PathOf(const ProgramId& id) const {
  return fmt::format("{}/{}{}", options_.folder, id.hash, kSuffix);
}

std::shared_ptr<const CompiledProgram> ProgramCache::Get(const ProgramId& id) {
  if (!IsHash(id.hash)) return nullptr;
  const std::string path = PathOf(id);
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) {
    if (!absl::IsNotFound(bytes.status())) {
      LogWarn("can't read {}, {}", path, std::string(bytes.status().message()));
    }
    MutexLock lock(mutex_);
    ++stats_.misses;
    return nullptr;
  }
  absl::StatusOr<CompiledProgram> program = DecodeProgramFile(*bytes);
  if (program.ok() && program->id != id) program = absl::InvalidArgumentError("it holds another program");
  if (!program.ok()) {
    LogWarn("deleted {} from the program cache, {}", path, std::string(program.status().message()));
    unlink(path.c_str());
    MutexLock lock(mutex_);
    ++stats_.misses;
    ++stats_.corrupt;
    return nullptr;
  }
  MutexLock lock(mutex_);
  ++stats_.hits;
  return std::make_shared<const CompiledProgram>(*std::move(program));
}

void ProgramCache::Put(const CompiledProgram& program) {
  if (!IsHash(program.id.hash)) return;
  absl::StatusOr<std::string> file = EncodeProgramFile(program);
  if (!file.ok() || file->size() > options_.bytes_max) {
    LogDebug("{} is too large for the program cache", program.info.name);
    return;
  }
  const absl::Status written = WriteFile(options_.folder, PathOf(program.id), *file);
  bool full = false;
  {
    MutexLock lock(mutex_);
    if (!written.ok()) {
      if (!warned_) LogWarn("can't write to the program cache, {}", std::string(written.message()));
      warned_ = true;
      return;
    }
    ++stats_.writes;
    stats_.bytes += file->size();
    full = stats_.bytes > options_.bytes_max;
  }
  if (full) Trim();
}

void ProgramCache::Trim() {
  struct Entry {
    std::string path;
    uint64_t bytes;
    timespec used;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  DIR* folder = opendir(options_.folder.c_str());
  if (folder == nullptr) return;
  const time_t now = std::time(nullptr);
  while (const dirent* item = readdir(folder)) {
    const std::string_view name = item->d_name;
    const std::string path = fmt::format("{}/{}", options_.folder, name);
    struct stat info = {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (name.substr(0, kTemporary.size()) == kTemporary) {
      // Left by a process that died while writing.
      if (now - info.st_mtime > kTemporarySeconds) unlink(path.c_str());
      continue;
    }
    if (!IsProgramFile(name)) continue;
    total += static_cast<uint64_t>(info.st_size);
    entries.push_back({path, static_cast<uint64_t>(info.st_size), info.st_mtim});
  }
  closedir(folder);
  uint64_t evicted = 0;
  if (total > options_.bytes_max) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
    });
    for (const Entry& entry : entries) {
      if (total <= options_.bytes_max / 10 * 9) break;
      unlink(entry.path.c_str());  // another proxy may have been faster: gone is gone
      total -= entry.bytes;
      ++evicted;
    }
  }
  MutexLock lock(mutex_);
  stats_.bytes = total;
  stats_.evicted += evicted;
}

ProgramCache::Stats ProgramCache::stats() {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace switchtower
