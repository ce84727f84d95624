// I-4: no bytes from a client crash the server. Requests of all kinds, mutated at random from a fixed seed.
#include <random>

#include <gtest/gtest.h>

#include "frontdoor/test_client.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/logging.h"

namespace switchtower {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Random = std::mt19937_64;

uint64_t Number(Random& random) {
  constexpr uint64_t kInteresting[] = {0,
                                       1,
                                       2,
                                       3,
                                       4,
                                       5,
                                       7,
                                       8,
                                       16,
                                       100,
                                       uint64_t{1} << 31,
                                       uint64_t{1} << 48,
                                       uint64_t{1} << 62,
                                       ~uint64_t{0},
                                       uint64_t{1} << 63};
  return kInteresting[random() % std::size(kInteresting)];
}

// Bytes that lead further in than noise does.
std::string Text(Random& random) {
  const Shape shape{DType::kF32, {8}};
  xla::ifrt::ShardingProto rows, all;
  EXPECT_TRUE(ToProto(TestClient::Rows({0, 1, 2, 3}, 1), shape, &rows).ok());
  EXPECT_TRUE(ToProto(TestClient::Replicated({0, 2}), shape, &all).ok());
  const std::string texts[] = {"",
                               "{1,0}",
                               "{0}",
                               "device",
                               "pinned_host",
                               "identity",
                               "xla::ifrt::HloSharding",
                               "xla::ifrt::SingleDeviceSharding",
                               "xla::ifrt::ConcreteSharding",
                               "xla::ifrt::ConcreteEvenSharding",
                               "xla::ifrt::OpaqueSharding",
                               "xla::ifrt::PjRtLayout",
                               "xla::ifrt::CompactLayout",
                               "xla::ifrt::XlaProgram",
                               "xla::ifrt::XlaCompileOptions",
                               rows.serialized_sharding().data(),
                               all.serialized_sharding().data()};
  std::string text = texts[random() % std::size(texts)];
  if (random() % 4 == 0 && !text.empty()) text[random() % text.size()] = static_cast<char>(random());
  if (random() % 16 == 0) text.append(random() % 40, static_cast<char>(random()));
  return text;
}

void Fill(Message& message, Random& random, int depth);

void FillField(Message& message, const FieldDescriptor* field, Random& random, int depth) {
  const auto* reflection = message.GetReflection();
  const int count = field->is_repeated() ? static_cast<int>(random() % 4) : 1;
  for (int i = 0; i < count; ++i) {
    const bool repeated = field->is_repeated();
    switch (field->cpp_type()) {
#define ST_FILL_(CPP, Type, value)                   \
  case FieldDescriptor::CPPTYPE_##CPP:               \
    if (repeated) {                                  \
      reflection->Add##Type(&message, field, value); \
    } else {                                         \
      reflection->Set##Type(&message, field, value); \
    }                                                \
    break;
      ST_FILL_(INT32, Int32, static_cast<int32_t>(Number(random)))
      ST_FILL_(INT64, Int64, static_cast<int64_t>(Number(random)))
      ST_FILL_(UINT32, UInt32, static_cast<uint32_t>(Number(random)))
      ST_FILL_(UINT64, UInt64, Number(random))
      ST_FILL_(FLOAT, Float, 1.5f)
      ST_FILL_(DOUBLE, Double, 1.5)
      ST_FILL_(BOOL, Bool, random() % 2 == 0)
      ST_FILL_(ENUM, EnumValue, static_cast<int>(random() % 40))
      ST_FILL_(STRING, String, Text(random))
#undef ST_FILL_
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(repeated ? *reflection->AddMessage(&message, field) : *reflection->MutableMessage(&message, field), random,
             depth + 1);
        break;
    }
  }
}

void Fill(Message& message, Random& random, int depth) {
  if (depth > 8) return;
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    if (descriptor->field(i)->real_containing_oneof() == nullptr && random() % 8 != 0) {
      FillField(message, descriptor->field(i), random, depth);
    }
  }
  for (int i = 0; i < descriptor->real_oneof_decl_count(); ++i) {
    const auto* oneof = descriptor->oneof_decl(i);
    FillField(message, oneof->field(static_cast<int>(random() % oneof->field_count())), random, depth);
  }
}

std::shared_ptr<TestClient> Prepared() {
  auto client = TestClient::Create();
  CompiledProgram program;
  program.info.parameters.resize(1);
  program.info.results.resize(1);
  client->fake->AddProgram("identity", program);
  for (int i = 0; i < 3; ++i) client->Put(Shape{DType::kF32, {8}}, std::string(32, 'x'), {i});
  return client;
}

TEST(HostileRequestsTest, RandomFields) {
  google::protobuf::LogSilencer quiet;
  Random random(20261129);
  for (int round = 0; round < 60; ++round) {
    auto client = Prepared();
    for (int i = 0; i < 100; ++i) {
      IfrtRequest request;
      Fill(request, random, 0);
      client->Post(std::move(request));
    }
    client->client->Close(absl::CancelledError("done"));
    for (const auto& reply : client->replies) TestClient::StatusOf(reply).IgnoreError();
  }
}

TEST(HostileRequestsTest, RandomBytes) {
  google::protobuf::LogSilencer quiet;
  Random random(42);
  auto client = Prepared();
  const IfrtRequest seeds[] = {TestClient::MakeArray(50, Shape{DType::kF32, {8}}, TestClient::Rows({0, 1, 2, 3}, 1)),
                               TestClient::MakeArray(51, Shape{DType::kF32, {8}}, TestClient::Replicated({0, 1}))};
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = seeds[i % 2].SerializeAsString();
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    IfrtRequest request;
    if (!request.ParseFromString(bytes)) continue;
    ++parsed;
    client->Post(std::move(request));
  }
  EXPECT_GT(parsed, 1000);
}

TEST(HostileRequestsTest, UnknownRequestIsNamed) {
  auto client = TestClient::Create();
  IfrtRequest request;
  IfrtRequest::GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(77)->assign("x");
  const absl::Status status = client->Run(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("77"), std::string::npos) << status;
  EXPECT_EQ(client->Run(IfrtRequest()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace switchtower
