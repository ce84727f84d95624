#include "frontdoor/front_door.h"

#include <unistd.h>

#include <chrono>
#include <future>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "base/log.h"
#include "base/net/event_loop.h"
#include "base/net/host_port.h"
#include "base/status_macros.h"
#include "frontdoor/agent_relay.h"
#include "frontdoor/agent_server.h"
#include "frontdoor/client_sockets.h"
#include "frontdoor/file_upload.h"
#include "frontdoor/ifrt_service.h"
#include "frontdoor/shared_port.h"
#include "frontdoor/single_poller.h"
#include "google/protobuf/stubs/logging.h"

namespace switchtower {
namespace {

constexpr int kStreamWindowBytes = 64 << 10;

// protobuf complains on stderr about each malformed string, which a client could use to flood the log.
void LogFromProtobuf(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  LogDebug("protobuf: {}", message);
}

}  // namespace

struct FrontDoor::Impl {
  Impl(const FrontDoorOptions& options, Controller& controller, std::unique_ptr<EventLoop> loop)
      : grace_ms(options.stop_grace_ms),
        loop(std::move(loop)),
        relays(options.relays != nullptr ? *options.relays : own_relays),
        agents(*this->loop),
        agent_relay(*this->loop, relays, agents),
        sockets(*this->loop),
        reaper("door-reaper", 1),
        files("door-files", 1),
        pool("door", std::max(1, options.threads)),
        context{controller,
                registry,
                *this->loop,
                agents,
                relays,
                agent_relay,
                sockets,
                pool,
                reaper,
                files,
                options.launches_in_flight_max,
                options.waiting_upload_bytes_max,
                options.download_bytes_max,
                options.unread_answer_bytes_max,
                options.shared_upload_dir,
                options.protocol_max,
                options.trace},
        service(context) {}

  const int grace_ms;
  SessionRegistry registry;
  const std::unique_ptr<EventLoop> loop;
  RelayTable own_relays;
  RelayTable& relays;
  AgentServer agents;
  AgentRelay agent_relay;
  ClientSockets sockets;
  // Destroyed in reverse: tasks of the pool may hand streams to the reaper.
  ThreadPool reaper;
  ThreadPool files;
  ThreadPool pool;
  DoorContext context;
  IfrtService service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<SinglePoller> single_poller;  // may be null
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> to_grpc;
  std::unique_ptr<SharedPort> port;  // the loop's thread
  int port_number = 0;

  absl::Status Listen(const std::string& host, int wanted) {
    absl::Status status;
    loop->RunAndWait([&] {
      SharedPort::Handlers handlers;
      handlers.on_grpc = [this](UniqueFd socket) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.listener_fd = -1;
        sockets.Add(socket.get());
        connection.fd = socket.release();
        to_grpc->HandleNewConnection(&connection);
      };
      handlers.on_agent = [this](UniqueFd socket) { agent_relay.Accept(std::move(socket)); };
      auto created = SharedPort::Create(*loop, Address::Tcp(host, static_cast<uint16_t>(wanted)), std::move(handlers));
      status = created.status();
      if (!created.ok()) return;
      port = *std::move(created);
      port_number = port->port();
    });
    return status;
  }
};

FrontDoor::FrontDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Start(const FrontDoorOptions& options, Controller& controller) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(fmt::format("there is no port {}", options.port));
  }
  if (!options.shared_upload_dir.empty()) RETURN_IF_ERROR(CheckUploadDirectory(options.shared_upload_dir));
  google::protobuf::SetLogHandler(&LogFromProtobuf);
  ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create("door"));
  auto impl = std::make_unique<Impl>(options, controller, std::move(loop));
  grpc::ServerBuilder builder;
  // The port is ours, because agents come in by it too.
  impl->to_grpc = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  // A program with large constants is one large message; the default limit would end the session.
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  // A compressed message can be a thousand times as large in memory; no client of ours sends any.
  for (auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  // Proxies that relay sessions here look every few seconds whether this one still answers.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  // The client's thread waits in a write once the stream has so many bytes that aren't read yet: the only thing that
  // slows one that runs ahead. Left to grow with the connection's speed the window holds tens of thousands of requests,
  // for each upload of which the client keeps a thread, until it has no more and aborts.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.RegisterService(&impl->service);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) return absl::InternalError("gRPC can't start a server");
  impl->single_poller = SinglePoller::Create(*impl->server, ::sysconf(_SC_NPROCESSORS_CONF));
  std::unique_ptr<FrontDoor> door(new FrontDoor(std::move(impl)));
  RETURN_IF_ERROR(door->impl_->Listen(options.host, options.port));
  LogInfo("front door listens on {}", HostPort(options.host, door->port()));
  return door;
}

FrontDoor::~FrontDoor() { Stop(); }

int FrontDoor::port() const { return impl_->port_number; }

void FrontDoor::EndSessions(const absl::Status& why) { impl_->registry.EndOwnSessions(why); }

void FrontDoor::Stop() {
  if (impl_->server == nullptr) return;
  impl_->loop->RunAndWait([this] { impl_->port = nullptr; });
  impl_->single_poller = nullptr;
  // Sessions don't end by themselves, so gRPC's shutdown would wait for the whole grace.
  impl_->registry.Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(impl_->grace_ms));
  impl_->server->Wait();
  impl_->registry.WaitUntilEmpty();
  impl_->loop->RunAndWait([this] {
    impl_->agent_relay.Stop();
    impl_->agents.Stop();
    impl_->sockets.Clear();
  });
  impl_->loop->Stop();
  impl_->server.reset();
}

FrontDoor::Counts FrontDoor::counts() const {
  const SessionRegistry::Counts counts = impl_->registry.counts();
  return {counts.sessions, impl_->relays.size(), counts.waiting_upload_bytes, counts.download_bytes};
}

}  // namespace switchtower
