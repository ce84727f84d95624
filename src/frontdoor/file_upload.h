// Uploads through a directory that client and server share: large buffers skip gRPC.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "frontdoor/host_buffer_store.h"

namespace switchtower {

// Reads `directory`/lt_<handle>, a plain file of exactly `size` bytes, into the host buffer and removes the
// file. Blocks on the disk: for a thread of its own.
absl::Status UploadFromFile(const std::string& directory, uint64_t handle, int64_t size, HostBufferStore& buffers);

}  // namespace switchtower
