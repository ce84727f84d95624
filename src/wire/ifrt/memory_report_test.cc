#include "wire/ifrt/memory_report.h"

#include <string>

#include <gtest/gtest.h>

#include "xla/python/ifrt_proxy/contrib/pathways/status_annotator.pb.h"

namespace switchtower {
namespace {

TEST(MemoryReportTest, GroupsCreatorsByUserContext) {
  MemoryReport report{"slice s0 host 0 device 1",
                      {{7, "result of jit_f", 2, 200, 1, 50}, {0, "other sessions", 1, 90, 0, 0}, {7, "put", 1, 40}},
                      "cut"};
  absl::Status status = absl::ResourceExhaustedError("full");
  AttachMemoryReport(report, absl::FromUnixNanos(1234), &status);
  EXPECT_EQ(status.message(), "full");
  const auto payload = status.GetPayload("type.googleapis.com/ifrt_proxy_contrib_pathways.ObjectStoreDumpProto");
  ASSERT_TRUE(payload.has_value());
  ifrt_proxy_contrib_pathways::ObjectStoreDumpProto proto;
  ASSERT_TRUE(proto.ParseFromString(std::string(*payload)));
  EXPECT_EQ(proto.device(), "slice s0 host 0 device 1");
  EXPECT_EQ(proto.dump_timestamp_ns(), 1234u);
  EXPECT_EQ(proto.dump().warning(), "cut");
  ASSERT_EQ(proto.dump().per_error_context_size(), 2);
  const auto& own = proto.dump().per_error_context(0);
  EXPECT_EQ(own.error_context_id(), 7u);
  ASSERT_EQ(own.per_creator_size(), 2);
  EXPECT_EQ(own.per_creator(0).creator(), "result of jit_f");
  EXPECT_EQ(own.per_creator(0).ready_obj_count(), 2u);
  EXPECT_EQ(own.per_creator(0).ready_total_size(), 200u);
  EXPECT_EQ(own.per_creator(0).not_ready_obj_count(), 1u);
  EXPECT_EQ(own.per_creator(0).not_ready_total_size(), 50u);
  EXPECT_EQ(own.per_creator(1).creator(), "put");
  EXPECT_EQ(proto.dump().per_error_context(1).error_context_id(), 0u);
}

}  // namespace
}  // namespace switchtower
