// A request of every kind, as a client of each protocol version sends it; and what clients of later versions may send.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"
#include "frontdoor/sample_client.h"
#include "google/protobuf/descriptor.h"
#include "wire/ifrt/versions.h"
#include "xla/python/ifrt/serdes.pb.h"
#include "xla/python/ifrt/sharding_serdes.pb.h"
#include "xla/python/pjrt_ifrt/xla_sharding.pb.h"

namespace switchtower {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class EveryRequestTest : public ControllerTest, public testing::WithParamInterface<int> {
 protected:
  EveryRequestTest() {
    compiler.Register("one", TestProgram("one", 1, 1, 1));
    StartAll();
    EXPECT_TRUE(Open().ok());
    std::unique_ptr<Session> own = std::move(sessions.back());
    sessions.pop_back();
    client = std::make_shared<SampleClient>(std::move(own), kProtocolMax, 1, [this] { Settle(); });
  }
  std::shared_ptr<SampleClient> client;
};

std::vector<int> Kinds() {
  std::vector<int> kinds;
  const auto* oneof = IfrtRequest::descriptor()->FindOneofByName("request");
  for (int i = 0; i < oneof->field_count(); ++i) kinds.push_back(oneof->field(i)->number());
  return kinds;
}

std::string NameOf(const testing::TestParamInfo<int>& info) {
  return IfrtRequest::descriptor()->FindFieldByNumber(info.param)->name();
}
INSTANTIATE_TEST_SUITE_P(Kinds, EveryRequestTest, testing::ValuesIn(Kinds()), NameOf);

// These are refused whatever they name, or have nothing to answer.
bool Works(int kind) {
  return kind != IfrtRequest::kLoadedExecutableMpmdMetadataRequest &&
         kind != IfrtRequest::kLoadedExecutableMpmdCostAnalysisRequest &&
         kind != IfrtRequest::kLoadedHostCallbackReturnRequest;
}

TEST_P(EveryRequestTest, WorksAtEachProtocolVersion) {
  for (int protocol = kProtocolMin; protocol <= kProtocolMax; ++protocol) {
    ASSERT_TRUE(Open().ok());
    std::unique_ptr<Session> own = std::move(sessions.back());
    sessions.pop_back();
    auto one = std::make_shared<SampleClient>(std::move(own), protocol, 1, [this] { Settle(); });
    one->MakeThings();
    IfrtRequest request = SampleRequest(GetParam(), *one);
    if (protocol < kProtocolFetchExecuteResult && request.has_loaded_executable_fetch_execute_result_request()) {
      request.mutable_check_future_request()->set_future_handle(one->status);  // as these clients ask for it
    }
    EXPECT_EQ(one->RunToEnd(request).ok(), Works(GetParam())) << "protocol " << protocol;
  }
}

// Sets the version of the nth message that has one; messages inside of bytes count. False: there are fewer.
bool SetVersion(Message& message, int* n) {
  const auto* reflection = message.GetReflection();
  if (const FieldDescriptor* version = message.GetDescriptor()->FindFieldByName("version_number");
      version != nullptr && (*n)-- == 0) {
    reflection->SetInt32(&message, version, 1);
    return true;
  }
  if (auto* serialized = dynamic_cast<xla::ifrt::Serialized*>(&message)) {
    std::unique_ptr<Message> inner;
    if (serialized->type_name() == "xla::ifrt::HloSharding") inner = std::make_unique<xla::ifrt::HloShardingProto>();
    if (serialized->type_name() == "xla::ifrt::SingleDeviceSharding") {
      inner = std::make_unique<xla::ifrt::SingleDeviceShardingProto>();
    }
    if (serialized->type_name() == "xla::ifrt::XlaCompileOptions") {
      inner = std::make_unique<xla::ifrt::XlaCompileOptionsProto>();
    }
    if (inner == nullptr) return false;
    EXPECT_TRUE(inner->ParseFromString(serialized->data()));
    const bool set = SetVersion(*inner, n);
    serialized->set_data(inner->SerializeAsString());
    return set;
  }
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (SetVersion(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                                          : *reflection->MutableMessage(&message, field),
                     n)) {
        return true;
      }
    }
  }
  return false;
}

// A later serialisation version would be misread: each message in the request says which it is of.
TEST_P(EveryRequestTest, MessagesOfALaterSerialisationAreRefused) {
  client->MakeThings();
  for (int nth = 0;; ++nth) {
    IfrtRequest request = SampleRequest(GetParam(), *client);
    int n = nth;
    if (!SetVersion(request, &n)) break;
    const absl::Status status = client->Run(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << request.ShortDebugString();
    EXPECT_NE(std::string(status.message()).find("is of version 1, this server knows 0"), std::string::npos) << status;
  }
}

TEST(VersionOffersTest, AnyOfferIsAnsweredByAVersionThatIsInItOrRefused) {
  for (int protocol_min = 14; protocol_min <= 27; ++protocol_min) {
    for (int protocol_max = protocol_min; protocol_max <= 27; ++protocol_max) {
      for (int serdes_min = 0; serdes_min <= 7; ++serdes_min) {
        for (int serdes_max = serdes_min; serdes_max <= 7; ++serdes_max) {
          const auto version = NegotiateVersion({protocol_min, serdes_min}, {protocol_max, serdes_max});
          const bool common = protocol_min <= kProtocolMax && protocol_max >= kProtocolMin &&
                              serdes_min <= kSerdesMax && serdes_max >= kSerdesMin;
          ASSERT_EQ(version.ok(), common);
          if (!common) {
            EXPECT_EQ(version.status().code(), absl::StatusCode::kFailedPrecondition);
            continue;
          }
          EXPECT_TRUE(version->protocol >= protocol_min && version->protocol <= protocol_max);
          EXPECT_TRUE(version->serdes >= serdes_min && version->serdes <= serdes_max);
          EXPECT_TRUE(CheckVersion(*version).ok());
        }
      }
    }
  }
}

}  // namespace
}  // namespace switchtower
