#include "scale/sink_process.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "base/net/address.h"
#include "base/net/framed_connection.h"
#include "child_server.h"
#include "wire/worker/hello.h"
#include "wire/worker/worker_codec.h"
#include "worker/agent/socket_port.h"

namespace switchtower::bench {
namespace {

// One worker: whoever the controller takes it for.
class SinkConnection : public FramedConnection::Handler {
 public:
  explicit SinkConnection(EventLoop& loop) : loop_(loop) {}
  void Open(UniqueFd socket, const std::shared_ptr<SinkConnection>& self) {
    connection_ = FramedConnection::Create(loop_, std::move(socket), {}, self);
  }

  void OnFrame(Frame frame) override {
    if (port_ != nullptr) return port_->OnCommandFrame(frame.body.view());
    absl::StatusOr<ControllerHello> hello = DecodeHello(frame.body.view());
    if (!hello.ok()) return connection_->Close(hello.status());
    WorkerHelloReply reply;
    reply.worker = hello->worker;
    reply.num_devices = 8;
    if (!connection_->Send(static_cast<uint32_t>(WorkerFrame::kHelloReply), Payload(EncodeHelloReply(reply))).ok()) {
      return;
    }
    port_ = std::make_shared<SocketPort>(loop_, connection_);
    port_->Start({[port = port_.get()](WorkerCommand command) {
                    if (const auto* launch = std::get_if<Launch>(&command)) port->Send(Watermark{launch->id});
                    if (const auto* ask = std::get_if<AwaitReady>(&command)) {
                      port->Send(Ready{ask->request, absl::OkStatus()});
                    }
                  },
                  [](absl::Status) {}});
  }
  void OnClosed(absl::Status why) override {
    if (port_ != nullptr) port_->OnClosed(std::move(why));
    port_ = nullptr;
    connection_ = nullptr;
  }

 private:
  EventLoop& loop_;
  std::shared_ptr<FramedConnection> connection_;
  std::shared_ptr<SocketPort> port_;  // once it has said hello
};

}  // namespace

int RunSink(const std::string& text) {
  absl::StatusOr<Address> address = Address::Parse(text);
  absl::StatusOr<std::unique_ptr<EventLoop>> loop = EventLoop::Create("sink");
  if (!address.ok() || !loop.ok()) return 1;
  std::unique_ptr<Listener> listener;
  (*loop)->RunAndWait([&] {
    absl::StatusOr<std::unique_ptr<Listener>> made = Listener::Create(**loop, *address, [&](UniqueFd socket) {
      auto connection = std::make_shared<SinkConnection>(**loop);
      connection->Open(std::move(socket), connection);
    });
    if (made.ok()) listener = *std::move(made);
  });
  if (listener == nullptr) return 1;
  AnnounceAndServe(listener->address().ToString());
  // No tidying up: the connections end with the process.
  ::_exit(0);
}

}  // namespace switchtower::bench
