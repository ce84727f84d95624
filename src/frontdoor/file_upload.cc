#include "frontdoor/file_upload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;

// Appends the file's bytes in chunks, at most `size`.
absl::Status ReadInto(int fd, const std::string& path, int64_t size, HostBufferStore::Upload& upload) {
  while (size > 0) {
    auto chunk = std::make_shared<std::string>(std::min<int64_t>(size, kChunkBytes), '\0');
    const ssize_t count = read(fd, chunk->data(), chunk->size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::DataLossError(fmt::format("reading {}: {}", path, count < 0 ? std::strerror(errno) : "too short"));
    }
    chunk->resize(count);
    size -= count;
    upload.Append(std::move(chunk));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UploadFromFile(const std::string& directory, uint64_t handle, int64_t size, HostBufferStore& buffers) {
  const std::string path = fmt::format("{}/lt_{}", directory, handle);
  // A link could lead to a file that the client may not read.
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::InvalidArgumentError(fmt::format("can't open the upload {}: {}", path, std::strerror(errno)));
  }
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("the upload {} isn't a plain file", path));
  }
  if (info.st_size != size) {
    return absl::DataLossError(fmt::format("the upload {} has {} bytes, {} were announced", path, info.st_size, size));
  }
  ASSIGN_OR_RETURN(auto upload, buffers.BeginUpload(handle, size));
  const absl::Status status = upload->Finish(ReadInto(fd, path, size, *upload));
  unlink(path.c_str());
  return status;
}

}  // namespace switchtower
