#include "worker_api/in_process_channel.h"

#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

std::shared_ptr<const SharedCommand> Command(uint64_t gang) {
  return std::make_shared<const SharedCommand>(DropGang{GangId{gang}});
}

TEST(InProcessChannel, CommandsAndEventsArriveInOrderAndTheEndComesLast) {
  ThreadPool pool("test", 2);
  InProcessLink link = MakeInProcessLink(pool);
  std::vector<uint64_t> commands;
  std::vector<uint64_t> events;
  std::promise<absl::Status> port_closed, channel_closed;

  for (uint64_t i = 0; i < 50; ++i) link.channel->Send(Command(i));  // before anybody listens
  link.port->Start({[&](WorkerCommand command) {
                      commands.push_back(std::get<DropGang>(command).gang.value);
                      link.port->Send(Ready{RequestId{commands.back()}, absl::OkStatus()});
                    },
                    [&](absl::Status why) { port_closed.set_value(why); }});
  std::promise<void> all_events;
  link.channel->Start({[&](WorkerEvent event) {
                         events.push_back(std::get<Ready>(event).request.value);
                         if (events.size() == 100) all_events.set_value();
                       },
                       [&](absl::Status why) { channel_closed.set_value(why); }});
  for (uint64_t i = 50; i < 100; ++i) link.channel->Send(Command(i));
  all_events.get_future().wait();
  link.channel->Close();
  EXPECT_FALSE(port_closed.get_future().get().ok());
  EXPECT_TRUE(channel_closed.get_future().get().ok());
  ASSERT_EQ(commands.size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(commands[i], i);
    EXPECT_EQ(events[i], i);
  }
}

TEST(InProcessChannel, AWorkersEndIsTheChannelsEnd) {
  ThreadPool pool("test", 1);
  InProcessLink link = MakeInProcessLink(pool);
  std::promise<absl::Status> closed;
  link.channel->Start({[](WorkerEvent) {}, [&](absl::Status why) { closed.set_value(why); }});
  bool sent = false;
  link.port->Close(absl::DataLossError("killed"));
  link.port->Send(Watermark{}, [&] { sent = true; });
  EXPECT_TRUE(sent);
  EXPECT_EQ(closed.get_future().get(), absl::DataLossError("killed"));
}

}  // namespace
}  // namespace switchtower
