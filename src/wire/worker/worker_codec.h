// WorkerCommand and WorkerEvent values <-> bodies of kCommand and kEvent frames.
//
//   body = {u32 length of head, little endian} {head: WorkerCommand or WorkerEvent message} {payload bytes}
//
// The payload is what may be large: a program's executable, a chunk of a stream, a piece of a shard. A sender
// frames head and payload without copying the payload:
//
//   Payload body(command->encoded(EncodeCommandHead));            // once, however many workers
//   if (auto payload = CommandPayload(command->command())) body.Append(payload);
//   connection->Send(static_cast<uint32_t>(WorkerFrame::kCommand), std::move(body));
//
// Errors:   decoding gives InvalidArgument for any bytes that aren't a valid message: shapes, layouts, boxes,
//           indices and status codes are checked here, so that the inside may rely on them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker_api/commands.h"
#include "worker_api/events.h"

namespace switchtower {

// Length and head.
std::string EncodeCommandHead(const WorkerCommand& command);
std::string EncodeEventHead(const WorkerEvent& event);
// Null where the value has none.
std::shared_ptr<const std::string> CommandPayload(const WorkerCommand& command);
std::shared_ptr<const std::string> EventPayload(const WorkerEvent& event);

absl::StatusOr<WorkerCommand> DecodeCommand(std::string_view body);
absl::StatusOr<WorkerEvent> DecodeEvent(std::string_view body);

}  // namespace switchtower
