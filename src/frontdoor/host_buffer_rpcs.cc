#include "frontdoor/host_buffer_rpcs.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "frontdoor/file_upload.h"
#include "frontdoor/grpc_status.h"
#include "frontdoor/metadata_keys.h"

namespace switchtower {
namespace {

using namespace xla::ifrt::proxy;  // NOLINT: messages of the service only

// One upload. Reads a chunk at a time, the next one when there is room.
class StoreReactor final : public grpc::ServerReadReactor<GrpcHostBufferStoreRequest> {
 public:
  StoreReactor(SessionRegistry& registry, grpc::CallbackServerContext& context) {
    absl::Status status = Begin(registry, context);
    const std::shared_ptr<Stream> stream = stream_;
    MutexLock lock(stream->mutex);
    stream->reactor = this;
    if (status.ok()) {
      StartRead(&request_);
    } else {
      FinishLocked(status);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(upload_->Finish(absl::OkStatus()));
      return;
    }
    upload_->Append(std::make_shared<const std::string>(std::move(*request_.mutable_data())));
    upload_->WhenRoom([stream = stream_] {
      MutexLock lock(stream->mutex);
      if (stream->reactor != nullptr) stream->reactor->StartRead(&stream->reactor->request_);
    });
  }

  void OnCancel() override {
    // While a read is under way its failure ends the upload too; without one only this does.
    if (upload_ != nullptr) End(upload_->Finish(absl::CancelledError("client broke off the upload")));
  }

  void OnDone() override { delete this; }

 private:
  // What the wait for room may still hold when the reactor is gone.
  struct Stream {
    Mutex mutex;
    StoreReactor* reactor GUARDED_BY(mutex) = nullptr;  // null once finished
  };

  absl::Status Begin(SessionRegistry& registry, grpc::CallbackServerContext& context) {
    ASSIGN_OR_RETURN(const GrpcHostBufferStoreMetadata metadata, StoreMetadata(context));
    ASSIGN_OR_RETURN(buffers_, registry.FindBuffers(metadata.session_id()));
    ASSIGN_OR_RETURN(upload_, buffers_->BeginUpload(metadata.handle(), metadata.buffer_size()));
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    // Held here: finishing lets another thread delete this object.
    const std::shared_ptr<Stream> stream = stream_;
    MutexLock lock(stream->mutex);
    FinishLocked(status);
  }

  void FinishLocked(const absl::Status& status) {
    if (finished_) return;
    finished_ = true;
    stream_->reactor = nullptr;
    Finish(ToGrpc(status));
  }

  const std::shared_ptr<Stream> stream_ = std::make_shared<Stream>();
  bool finished_ = false;  // guarded by stream_->mutex
  GrpcHostBufferStoreRequest request_;
  std::shared_ptr<HostBufferStore> buffers_;
  std::unique_ptr<HostBufferStore::Upload> upload_;
};

class LookupReactor final : public grpc::ServerWriteReactor<GrpcHostBufferLookupResponse> {
 public:
  LookupReactor(SessionRegistry& registry, const GrpcHostBufferLookupRequest& request) {
    auto download = Find(registry, request);
    if (!download.ok()) {
      Finish(ToGrpc(download.status()));
      return;
    }
    download_ = *std::move(download);
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    if (ok && chunk_ < download_.chunks.size()) {
      WriteNext();
    } else {
      Finish(grpc::Status::OK);
    }
  }

  void OnDone() override { delete this; }

 private:
  static absl::StatusOr<HostBufferStore::Download> Find(SessionRegistry& registry,
                                                        const GrpcHostBufferLookupRequest& request) {
    ASSIGN_OR_RETURN(auto buffers, registry.FindBuffers(request.session_id()));
    return buffers->Lookup(request.handle());
  }

  // At least one message, if it must be with an empty one.
  void WriteNext() {
    constexpr size_t kMessageBytes = size_t{1} << 20;
    response_.clear_data();
    if (chunk_ < download_.chunks.size()) {
      const std::string& chunk = *download_.chunks[chunk_];
      const size_t count = std::min(kMessageBytes, chunk.size() - offset_);
      response_.mutable_data()->assign(chunk, offset_, count);
      offset_ += count;
      if (offset_ == chunk.size()) {
        download_.chunks[chunk_++] = nullptr;
        offset_ = 0;
      }
    }
    StartWrite(&response_);
  }

  HostBufferStore::Download download_;
  size_t chunk_ = 0;  // the next to send, from offset_ on
  size_t offset_ = 0;
  GrpcHostBufferLookupResponse response_;
};

}  // namespace

absl::StatusOr<GrpcHostBufferStoreMetadata> StoreMetadata(const grpc::CallbackServerContext& context) {
  auto it = context.client_metadata().find(kStoreMetadataKey);
  GrpcHostBufferStoreMetadata metadata;
  if (it == context.client_metadata().end() ||
      !metadata.ParseFromArray(it->second.data(), static_cast<int>(it->second.size()))) {
    return absl::InvalidArgumentError("the upload came without readable metadata");
  }
  return metadata;
}

grpc::ServerReadReactor<GrpcHostBufferStoreRequest>* StoreHostBuffer(SessionRegistry& registry,
                                                                     grpc::CallbackServerContext* context) {
  return new StoreReactor(registry, *context);
}

grpc::ServerWriteReactor<GrpcHostBufferLookupResponse>* LookupHostBuffer(SessionRegistry& registry,
                                                                         const GrpcHostBufferLookupRequest& request) {
  return new LookupReactor(registry, request);
}

grpc::ServerUnaryReactor* DeleteHostBuffer(SessionRegistry& registry, grpc::CallbackServerContext* context,
                                           const GrpcHostBufferDeleteRequest& request) {
  auto buffers = registry.FindBuffers(request.session_id());
  if (buffers.ok()) (*buffers)->Delete(request.handle());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(buffers.status()));
  return reactor;
}

grpc::ServerUnaryReactor* ReadHostBufferFromDisk(DoorContext& door, grpc::CallbackServerContext* context,
                                                 const GrpcHostBufferReadFromDiskRequest& request) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const GrpcHostBufferStoreMetadata& metadata = request.metadata();
  auto buffers = door.registry.FindBuffers(metadata.session_id());
  absl::Status status = buffers.status();
  if (status.ok() && door.shared_upload_dir.empty()) {
    status = absl::FailedPreconditionError(
        "this server takes no uploads from files: it was started without --shared-upload-dir");
  }
  if (!status.ok()) {
    reactor->Finish(ToGrpc(status));
    return reactor;
  }
  StartFileUpload(door.files, door.shared_upload_dir, metadata.handle(), metadata.buffer_size(), *std::move(buffers),
                  [reactor](absl::Status status) { reactor->Finish(ToGrpc(status)); });
  return reactor;
}

}  // namespace switchtower
