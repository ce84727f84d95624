#include "inspect/trace_proto.h"

#include "base/utf8.h"

namespace switchtower {
namespace {

namespace pb = introspection;

constexpr int kEventsOfChunk = 4096;  // a few hundred KiB

pb::TraceEvent::Kind KindOf(TraceSpan::Kind kind) {
  switch (kind) {
    case TraceSpan::Kind::kRequest:
      return pb::TraceEvent::REQUEST;
    case TraceSpan::Kind::kSequence:
      return pb::TraceEvent::SEQUENCE;
    case TraceSpan::Kind::kExecute:
      return pb::TraceEvent::EXECUTE;
    case TraceSpan::Kind::kTransfer:
      return pb::TraceEvent::TRANSFER;
  }
  return pb::TraceEvent::UNKNOWN;
}

void ToProto(const TraceSpan& in, pb::TraceEvent* out) {
  out->set_kind(KindOf(in.kind));
  out->set_begin_ns(in.begin_ns);
  out->set_end_ns(in.end_ns);
  out->set_name(ToUtf8(in.name));
  out->set_session(in.session.value);
  out->set_flow_array(in.first_array.value);
  if (in.launch != LaunchId{}) {
    out->mutable_launch()->set_epoch(in.launch.epoch);
    out->mutable_launch()->set_number(in.launch.number);
  }
  out->set_worker(ToUtf8(in.worker));
  out->set_device(in.device);
  out->set_to_worker(ToUtf8(in.to_worker));
  out->set_bytes(in.bytes);
}

}  // namespace

std::deque<pb::TraceChunk> ToChunks(const TraceRecorder::Recording& recording) {
  std::deque<pb::TraceChunk> chunks(1);
  for (const TraceSpan& span : recording.spans) {
    if (chunks.back().events_size() == kEventsOfChunk) chunks.emplace_back();
    ToProto(span, chunks.back().add_events());
  }
  chunks.back().set_dropped(recording.dropped);
  return chunks;
}

}  // namespace switchtower
