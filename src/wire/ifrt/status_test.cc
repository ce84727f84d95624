#include "wire/ifrt/status.h"

#include <gtest/gtest.h>

#include "wire/ifrt/attributes.h"

namespace switchtower {
namespace {

TEST(StatusTest, RoundTripKeepsPayloads) {
  absl::Status status = absl::DataLossError("slice 1 lost");
  status.SetPayload("type.googleapis.com/ifrt.UserContext", absl::Cord("12345"));
  tensorflow::StatusProto proto;
  ToProto(status, &proto);
  EXPECT_EQ(proto.code(), tensorflow::error::DATA_LOSS);
  EXPECT_EQ(FromProto(proto), status);
}

TEST(StatusTest, AClientCanParseWhatAWorkerSaid) {
  absl::Status status = absl::InternalError("a plug-in's \xff\xc3");
  status.SetPayload("worker's \xfe", absl::Cord("\xff"));
  tensorflow::StatusProto proto, parsed;
  ToProto(status, &proto);
  ASSERT_TRUE(parsed.ParseFromString(proto.SerializeAsString()));
  EXPECT_EQ(parsed.message(), "a plug-in's ??");
  EXPECT_EQ(parsed.payload().at("worker's ?"), "\xff");
}

TEST(StatusTest, EveryCode) {
  for (int code = 0; code <= 16; ++code) {
    tensorflow::StatusProto proto;
    ToProto(absl::Status(static_cast<absl::StatusCode>(code), "m"), &proto);
    EXPECT_EQ(static_cast<int>(FromProto(proto).code()), code);
  }
  tensorflow::StatusProto proto;
  proto.set_code(static_cast<tensorflow::error::Code>(77));
  EXPECT_EQ(FromProto(proto).code(), absl::StatusCode::kUnknown);
}

TEST(AttributesTest, Values) {
  xla::ifrt::AttributeMapProto proto;
  SetAttribute("slice_index", int64_t{3}, &proto);
  SetAttribute("coords", std::vector<int64_t>{0, 1, 0}, &proto);
  SetAttribute("name", std::string("a"), &proto);
  SetAttribute("flops", 2.5f, &proto);
  EXPECT_EQ(proto.attributes().at("slice_index").int64_value(), 3);
  EXPECT_EQ(proto.attributes().at("coords").int64_list_value().elements(1), 1);
  EXPECT_EQ(proto.attributes().at("flops").float_value(), 2.5f);
  EXPECT_EQ(StringAttribute(proto, "name"), "a");
  EXPECT_EQ(StringAttribute(proto, "coords"), std::nullopt);
  EXPECT_EQ(StringAttribute(proto, "none"), std::nullopt);
  SetAttribute("weight", int64_t{4}, &proto);
  EXPECT_EQ(TextAttribute(proto, "weight"), "4");
  EXPECT_EQ(TextAttribute(proto, "name"), "a");
  EXPECT_EQ(TextAttribute(proto, "coords"), std::nullopt);
  EXPECT_EQ(TextAttribute(proto, "none"), std::nullopt);
}

}  // namespace
}  // namespace switchtower
