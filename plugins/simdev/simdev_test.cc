// The simulated plug-in, seen through the same wrapper that workers use.
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin.h"

namespace switchtower::pjrt {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Client> MakeClient(int64_t devices = 2) {
  auto plugin = Plugin::Load(SIMDEV_PLUGIN);
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  auto client = (*plugin)->CreateClient({{"device_count", devices}});
  EXPECT_TRUE(client.ok()) << client.status();
  return std::move(client).value();
}

Buffer Put(Client& client, int device, const std::vector<float>& values) {
  HostBuffer host;
  host.data = values.data();
  host.shape = {DType::kF32, {static_cast<int64_t>(values.size())}};
  auto put = client.BufferFromHost(host, *client.devices()[device].default_memory);
  EXPECT_TRUE(put.ok()) << put.status();
  return std::move(put->first);
}

absl::StatusOr<ExecuteResult> RunProgram(Client& client, const std::string& text, int device,
                                         std::vector<const Buffer*> arguments) {
  auto program = client.DeserializeAndLoad(text);
  if (!program.ok()) return program.status();
  ExecuteRequest request;
  request.device = &client.devices()[device];
  request.arguments = std::move(arguments);
  return program->Execute(request);
}

TEST(Simdev, HasDevicesAndMemories) {
  auto client = MakeClient(3);
  EXPECT_EQ(client->platform_name(), "simdev");
  ASSERT_EQ(client->devices().size(), 3u);
  EXPECT_EQ(client->devices()[2].default_memory->kind, "device");
  EXPECT_NE(client->devices()[2].FindMemory("pinned_host"), nullptr);
}

TEST(Simdev, KeepsWhatIsPutAndReadsResultsAsZeros) {
  auto client = MakeClient();
  const std::vector<float> values{1, 2, 3};
  const Buffer buffer = Put(*client, 1, values);
  std::vector<float> read(3);
  ASSERT_TRUE(buffer.ToHost(read.data(), 12)->Await().ok());
  EXPECT_EQ(read, values);
  auto result = RunProgram(*client, "simdev 1\ncompute_us 100\noutput f32 2 3\noutput s32\n", 1, {&buffer});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->completion.Await().ok());
  ASSERT_EQ(result->outputs.size(), 2u);
  EXPECT_EQ(result->outputs[0].GetShape()->ToString(), "f32[2,3]");
  std::vector<float> zeros(6, 7.f);
  ASSERT_TRUE(result->outputs[0].ToHost(zeros.data(), 24)->Await().ok());
  EXPECT_EQ(zeros, std::vector<float>(6, 0.f));
}

TEST(Simdev, DonationTakesTheArgument) {
  auto client = MakeClient();
  const Buffer buffer = Put(*client, 0, {1});
  ASSERT_TRUE(RunProgram(*client, "simdev 1\noutput f32 1\nalias 0 0\n", 0, {&buffer}).ok());
  EXPECT_TRUE(buffer.IsDeleted());
  EXPECT_FALSE(RunProgram(*client, "simdev 1\noutput f32 1\n", 0, {&buffer}).ok());
}

TEST(Simdev, InjectedFaultsFailEachNthExecutionAndItsConsumers) {
  auto client = MakeClient();
  const std::string text = "simdev 1\nname flaky\nfail_every 2\noutput f32 1\n";
  auto program = client->DeserializeAndLoad(text);
  ASSERT_TRUE(program.ok());
  ExecuteRequest request;
  request.device = &client->devices()[0];
  EXPECT_TRUE(program->Execute(request)->completion.Await().ok());
  auto failed = program->Execute(request);
  ASSERT_TRUE(failed.ok());
  EXPECT_THAT(std::string(failed->completion.Await().message()), HasSubstr("injected fault"));
  auto consumer = RunProgram(*client, "simdev 1\noutput f32 1\n", 0, {&failed->outputs[0]});
  ASSERT_TRUE(consumer.ok());
  EXPECT_THAT(std::string(consumer->completion.Await().message()), HasSubstr("injected fault"));
}

TEST(Simdev, RefusesBadPrograms) {
  auto client = MakeClient();
  for (const char* text : {"", "simdev 2\n", "simdev 1\noutput f99 3\n", "simdev 1\ncompute_us -4\n",
                           "simdev 1\nwhat\n", "simdev 1\nalias 0 0\n", "simdev 1\noutput f32 -1\n"}) {
    EXPECT_FALSE(client->DeserializeAndLoad(text).ok()) << text;
  }
}

TEST(Simdev, MemoryIsModelled) {
  setenv("SIMDEV_MEMORY_BYTES", "1000", 1);
  auto client = MakeClient();
  unsetenv("SIMDEV_MEMORY_BYTES");
  Buffer held = Put(*client, 0, std::vector<float>(150));
  const auto too_much = RunProgram(*client, "simdev 1\noutput f32 150\n", 0, {});
  EXPECT_EQ(too_much.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RunProgram(*client, "simdev 1\noutput f32 150\n", 1, {}).ok());
  ASSERT_TRUE(held.Delete().ok());
  EXPECT_TRUE(RunProgram(*client, "simdev 1\noutput f32 150\n", 0, {}).ok());
  EXPECT_EQ(client->MemoryStats(client->devices()[0])->bytes_limit, 1000);
}

}  // namespace
}  // namespace switchtower::pjrt
