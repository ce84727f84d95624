#include "frontdoor/file_upload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/net/unique_fd.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;

// One file on its way into a host buffer. Lives in its own tasks.
class FileUpload : public std::enable_shared_from_this<FileUpload> {
 public:
  FileUpload(ThreadPool& files, const std::string& directory, uint64_t handle, int64_t size,
             std::shared_ptr<HostBufferStore> buffers, Callback<absl::Status> done)
      : files_(files),
        directory_(directory),
        // The client names the file by the handle's low 32 bits, signed.
        name_(fmt::format("lt_{}", static_cast<int32_t>(handle))),
        handle_(handle),
        left_(size),
        buffers_(std::move(buffers)),
        done_(std::move(done)) {}

  void Start() {
    if (absl::Status status = Open(); !status.ok()) {
      done_(std::move(status));
      return;
    }
    ReadOn();
  }

 private:
  absl::Status Open() {
    const UniqueFd directory(open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    // A link could lead to a file that the client may not read.
    file_ = UniqueFd(openat(directory.get(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file_.get() < 0) return Bad(fmt::format("can't be opened: {}", std::strerror(errno)));
    struct stat info = {};
    if (fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Bad("isn't a plain file");
    // So could a second name of such a file.
    if (info.st_nlink != 1) return Bad("has other names too");
    if (info.st_size != left_) {
      return absl::DataLossError(
          fmt::format("the upload {}/{} has {} bytes, {} were announced", directory_, name_, info.st_size, left_));
    }
    ASSIGN_OR_RETURN(upload_, buffers_->BeginUpload(handle_, left_));
    return absl::OkStatus();
  }
  absl::Status Bad(const std::string& why) const {
    return absl::InvalidArgumentError(fmt::format("the upload {}/{} {}", directory_, name_, why));
  }

  void ReadOn() {
    if (left_ > 0) {
      auto chunk = ReadChunk();
      if (!chunk.ok()) {
        End(chunk.status());
        return;
      }
      left_ -= static_cast<int64_t>((*chunk)->size());
      upload_->Append(*std::move(chunk));
    }
    if (left_ == 0) {
      End(absl::OkStatus());
      return;
    }
    upload_->WhenRoom([self = shared_from_this()] { self->files_.Post([self] { self->ReadOn(); }); });
  }

  absl::StatusOr<HostBuffer::Chunk> ReadChunk() {
    auto chunk = std::make_shared<std::string>(std::min<int64_t>(left_, kChunkBytes), '\0');
    ssize_t count;
    do {
      count = read(file_.get(), chunk->data(), chunk->size());
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
      return absl::DataLossError(fmt::format("reading the upload {}/{}: {}", directory_, name_,
                                             count < 0 ? std::strerror(errno) : "it has become shorter"));
    }
    chunk->resize(count);
    return HostBuffer::Chunk(std::move(chunk));
  }

  void End(absl::Status status) {
    status = upload_->Finish(std::move(status));
    unlink((directory_ + "/" + name_).c_str());
    done_(std::move(status));
  }

  ThreadPool& files_;
  const std::string directory_;
  const std::string name_;
  const uint64_t handle_;
  int64_t left_;
  const std::shared_ptr<HostBufferStore> buffers_;
  Callback<absl::Status> done_;
  UniqueFd file_;
  std::unique_ptr<HostBufferStore::Upload> upload_;
};

}  // namespace

absl::Status CheckUploadDirectory(const std::string& directory) {
  struct stat info = {};
  if (stat(directory.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("the folder for uploads {} can't be used: {}", directory, std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(fmt::format("{} isn't a folder for uploads", directory));
  }
  if (access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(fmt::format("files in the folder for uploads {} can't be read and removed: {}",
                                                     directory, std::strerror(errno)));
  }
  return absl::OkStatus();
}

void StartFileUpload(ThreadPool& files, const std::string& directory, uint64_t handle, int64_t size,
                     std::shared_ptr<HostBufferStore> buffers, Callback<absl::Status> done) {
  auto upload = std::make_shared<FileUpload>(files, directory, handle, size, std::move(buffers), std::move(done));
  files.Post([upload] { upload->Start(); });
}

}  // namespace switchtower
