#include "wire/ifrt/memory_report.h"

#include <map>
#include <utility>

#include "absl/strings/cord.h"
#include "xla/python/ifrt_proxy/contrib/pathways/status_annotator.pb.h"

namespace switchtower {

void AttachMemoryReport(const MemoryReport& report, absl::Time now, absl::Status* status) {
  ifrt_proxy_contrib_pathways::ObjectStoreDumpProto proto;
  proto.set_device(report.device);
  proto.set_dump_timestamp_ns(absl::ToUnixNanos(now));
  proto.mutable_dump()->set_warning(report.warning);
  std::map<uint64_t, int> contexts;  // by id, its place in the message
  for (const MemoryHolder& holder : report.holders) {
    auto [it, added] = contexts.try_emplace(holder.user_context, proto.dump().per_error_context_size());
    auto* context = added ? proto.mutable_dump()->add_per_error_context()
                          : proto.mutable_dump()->mutable_per_error_context(it->second);
    context->set_error_context_id(holder.user_context);
    auto* creator = context->add_per_creator();
    creator->set_creator(holder.creator);
    creator->set_ready_obj_count(holder.ready_count);
    creator->set_ready_total_size(holder.ready_bytes);
    creator->set_not_ready_obj_count(holder.pending_count);
    creator->set_not_ready_total_size(holder.pending_bytes);
  }
  status->SetPayload("type.googleapis.com/ifrt_proxy_contrib_pathways.ObjectStoreDumpProto",
                     absl::Cord(proto.SerializeAsString()));
}

}  // namespace switchtower
