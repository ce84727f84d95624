// Uploads through a directory that client and server share: large buffers skip gRPC.
//
// Threads:  StartFileUpload from any; the disk is read on `files`, a chunk at a time in turn with other uploads, and
//           not on while the session's waiting uploads are over their bound.
// Errors:   InvalidArgument for what isn't a plain file of this name in this directory, DataLoss for one of another
//           size than announced.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/strand.h"
#include "controller/api/session.h"
#include "frontdoor/host_buffer_store.h"

namespace switchtower {

// FailedPrecondition unless it is a directory that this process may read and remove files from.
absl::Status CheckUploadDirectory(const std::string& directory);

// Reads `directory`/lt_<handle>, a plain file of exactly `size` bytes, into the host buffer, removes the file and then
// calls `done`, on a thread of `files`.
void StartFileUpload(ThreadPool& files, const std::string& directory, uint64_t handle, int64_t size,
                     std::shared_ptr<HostBufferStore> buffers, Callback<absl::Status> done);

}  // namespace switchtower
