#include "frontdoor/front_door.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "base/log.h"
#include "frontdoor/ifrt_service.h"
#include "google/protobuf/stubs/logging.h"

namespace switchtower {
namespace {

// gRPC says only that binding failed; trying once more by hand tells why.
absl::Status WhyNotBound(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(fmt::format("can't listen on \"{}\": {}", host, gai_strerror(error)));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM, 0);
  const bool bound = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
  const int cause = errno;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  if (!bound && cause == EADDRINUSE) {
    return absl::UnavailableError(
        fmt::format("port {} of {} is in use by another process; choose another or end that one", port, host));
  }
  return absl::UnavailableError(
      fmt::format("can't listen on port {} of {}: {}", port, host, bound ? "unknown reason" : std::strerror(cause)));
}

// protobuf complains on stderr about each malformed string, which a client could use to flood the log.
void LogFromProtobuf(google::protobuf::LogLevel level, const char* file, int line, const std::string& message) {
  LogDebug("protobuf: {}", message);
}

}  // namespace

struct FrontDoor::Impl {
  Impl(const FrontDoorOptions& options, Controller& controller)
      : grace_ms(options.stop_grace_ms),
        reaper("door-reaper", 1),
        files("door-files", 1),
        pool("door", std::max(1, options.threads)),
        context{controller,
                registry,
                pool,
                reaper,
                files,
                options.launches_in_flight_max,
                options.waiting_upload_bytes_max,
                options.shared_upload_dir,
                options.protocol_max},
        service(context) {}

  const int grace_ms;
  SessionRegistry registry;
  // Destroyed in reverse: tasks of the pool may hand streams to the reaper.
  ThreadPool reaper;
  ThreadPool files;
  ThreadPool pool;
  DoorContext context;
  IfrtService service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

FrontDoor::FrontDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Start(const FrontDoorOptions& options,
                                                            Controller& controller) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(fmt::format("there is no port {}", options.port));
  }
  google::protobuf::SetLogHandler(&LogFromProtobuf);
  auto impl = std::make_unique<Impl>(options, controller);
  grpc::ServerBuilder builder;
  const bool ipv6 = options.host.find(':') != std::string::npos && options.host.front() != '[';
  builder.AddListeningPort(fmt::format("{}{}{}:{}", ipv6 ? "[" : "", options.host, ipv6 ? "]" : "", options.port),
                           grpc::InsecureServerCredentials(), &impl->port);
  // A program with large constants is one large message; the default limit would end the session.
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  // Without this a second server on the port would start and take half of the clients.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) return WhyNotBound(options.host, options.port);
  LogInfo("front door listens on {}:{}", options.host, impl->port);
  return std::unique_ptr<FrontDoor>(new FrontDoor(std::move(impl)));
}

FrontDoor::~FrontDoor() { Stop(); }

int FrontDoor::port() const { return impl_->port; }

void FrontDoor::Stop() {
  if (impl_->server == nullptr) return;
  // Sessions don't end by themselves, so gRPC's shutdown would wait for the whole grace.
  impl_->registry.Stop();
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(impl_->grace_ms));
  impl_->server->Wait();
  impl_->registry.WaitUntilEmpty();
  impl_->server.reset();
}

FrontDoor::Counts FrontDoor::counts() const {
  const SessionRegistry::Counts counts = impl_->registry.counts();
  return {counts.sessions, counts.waiting_upload_bytes, counts.download_bytes};
}

}  // namespace switchtower
