#include "wire/agent/agent_codec.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Body(const std::string& head, const std::string& payload = "") {
  std::string body;
  for (int i = 0; i < 4; ++i) body += static_cast<char>((head.size() >> (8 * i)) & 0xff);
  return body + head + payload;
}

TEST(AgentCodecTest, ReadsWhatAnAgentWrites) {
  auto hello = DecodeAgentMessage(1, Body(R"({"version": 1, "token": "12:ab"})"));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(std::get<AgentHello>(*hello).version, 1u);
  EXPECT_EQ(std::get<AgentHello>(*hello).token, "12:ab");

  auto answer = DecodeAgentMessage(4, Body(R"({"call": 7})", std::string("\0\1\2", 3)));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(std::get<AgentReturn>(*answer).call, 7u);
  EXPECT_EQ(*std::get<AgentReturn>(*answer).data, std::string("\0\1\2", 3));

  auto retire = DecodeAgentMessage(5, Body(R"({"callbacks": [1, "18446744073709551615"], "news": {}})"));
  ASSERT_TRUE(retire.ok()) << retire.status();
  EXPECT_THAT(std::get<AgentRetire>(*retire).callbacks, ElementsAre(1u, 18446744073709551615u));
}

TEST(AgentCodecTest, ACallCarriesShapesAndBytes) {
  ClientCall call;
  call.callback = 3;
  call.device = DeviceId{2};
  call.operands = {Shape{DType::kF32, {2, 1}}, Shape{DType::kToken, {}}};
  call.results = {Shape{DType::kPred, {}}};
  call.data = std::make_shared<const std::string>("12345678");
  const AgentFrame frame = CallFrame(9, call);
  EXPECT_EQ(frame.type, 3u);
  const std::string body = frame.body.ToString();
  EXPECT_THAT(body, HasSubstr(R"("call":"9","callback":"3","device":2)"));
  EXPECT_THAT(body, HasSubstr(R"("operands":[{"dtype":11,"dims":["2","1"]},{"dtype":17}])"));
  EXPECT_THAT(body, HasSubstr(R"("results":[{"dtype":1}]})"
                              "12345678"));
}

TEST(AgentCodecTest, ErrorsStayReadable) {
  const std::string body = WelcomeFrame(absl::UnknownError("caf\xc3\xa9 \xff")).body.ToString();
  EXPECT_THAT(body, HasSubstr("caf?? ?"));
}

TEST(AgentCodecTest, RefusesWhatIsNoMessage) {
  EXPECT_FALSE(DecodeAgentMessage(99, Body("{}")).ok());
  EXPECT_FALSE(DecodeAgentMessage(3, Body("{}")).ok());  // the proxy's to send
  EXPECT_FALSE(DecodeAgentMessage(1, "\x05").ok());
  EXPECT_FALSE(DecodeAgentMessage(1, Body("{\"version\": -1}")).ok());
  EXPECT_FALSE(DecodeAgentMessage(1, std::string("\xff\xff\xff\xff{}", 6)).ok());
}

TEST(AgentCodecTest, MutatedBytesAreErrorsOrMessages) {
  std::mt19937 random(7);
  int taken = 0, refused = 0;
  const std::string good = Body(R"({"call": 7, "error": "Traceback"})", "payload");
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto message = DecodeAgentMessage(1 + random() % 8, bytes.substr(0, random() % (bytes.size() + 1)));
    ++(message.ok() ? taken : refused);
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace switchtower
