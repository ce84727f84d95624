#include "controller/schedule/stream_sender.h"

#include <utility>

#include <fmt/format.h>

#include "controller/arrays/array_info.h"

namespace switchtower {
namespace {

// The state of one stream, on the home strand.
struct Sender {
  StreamSender::Options options;
  int64_t seen = 0;
  bool ended = false;

  void Send(StreamChunk chunk) {
    chunk.stream = options.stream;
    ended = chunk.last;
    auto command = std::make_shared<const SharedCommand>(WorkerCommand(std::move(chunk)));
    for (const WorkerLinkPtr& link : options.links) link->Send(command);
  }
  void Last(absl::Status error) {
    StreamChunk chunk;
    chunk.last = true;
    chunk.uses = options.uses;
    chunk.error = WithUserContext(std::move(error), options.user_context);
    Send(std::move(chunk));
  }
  absl::Status SizeError() const {
    return absl::InvalidArgumentError(
        fmt::format("the host buffer holds {} bytes, the array's shard takes {}", seen, options.bytes));
  }
  void OnChunk(HostBuffer::Chunk data) {
    if (ended || data == nullptr || data->empty()) return;
    seen += static_cast<int64_t>(data->size());
    if (options.bytes >= 0 && seen > options.bytes) {
      Last(SizeError());
      return;
    }
    StreamChunk chunk;
    chunk.data = std::move(data);
    Send(std::move(chunk));
  }
  void OnEnd(absl::Status status) {
    if (ended) return;
    if (status.ok() && options.bytes >= 0 && seen != options.bytes) status = SizeError();
    Last(std::move(status));
  }
};

}  // namespace

void StreamSender::Start(Options options, HostBuffer& buffer) {
  std::shared_ptr<Poster> poster = options.poster;
  auto sender = std::make_shared<Sender>();
  sender->options = std::move(options);
  buffer.Consume(
      [poster, sender](HostBuffer::Chunk chunk) {
        poster->Post([sender, chunk = std::move(chunk)]() mutable { sender->OnChunk(std::move(chunk)); });
      },
      [poster, sender](absl::Status status) {
        poster->Post([sender, status = std::move(status)]() mutable { sender->OnEnd(std::move(status)); });
      });
}

}  // namespace switchtower
