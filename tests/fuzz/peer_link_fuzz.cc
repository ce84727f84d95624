// A connection of another worker that has shown the secret of the lease: any frames, descriptors that aren't what they
// should be, and shared memory with nonsense in it, some of which comes after the reader has looked. And what it
// answers where it was dialled.
//
// What is delivered can be read to its last byte; each send is told its end once. The connection ends, and nothing but
// it: the next one is served.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/net/address.h"
#include "base/net/frame_header.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"
#include "transport/fast_ring.h"
#include "transport/shm_ring.h"
#include "transport/socket_fabric.h"
#include "transport/wire.h"

namespace switchtower::fuzz {
namespace {

constexpr int kFramesMax = 64;
constexpr size_t kBodyMax = 64 * 1024;
constexpr size_t kMemoryMax = 256 * 1024;
constexpr uint64_t kPayloadMax = 1 << 20;
constexpr size_t kPageBytes = 4096;
constexpr size_t kFdsMax = 4;
constexpr WorkerId kSelf{1};

std::string Again(const std::string& data, size_t size) {
  std::string bytes = data.empty() ? std::string(1, '\0') : data;
  while (bytes.size() < size) bytes += bytes;
  bytes.resize(size);
  return bytes;
}

template <typename Words>
MessageHeader HeaderOf(const Words& words) {
  MessageHeader header;
  std::copy_n(words.begin(), std::min<int>(words.size(), static_cast<int>(header.words.size())), header.words.begin());
  return header;
}

// The worker that is talked to; one for all inputs.
class Listening {
 public:
  Listening() {
    SocketFabricOptions options;
    options.cluster_id = options.build = "fuzz";
    options.ring_bytes = kMemoryMax;
    fabric_ = std::move(SocketFabric::Create(options)).value();
    fabric_->SetReceiver([](WorkerId, const MessageHeader&, ReceivedBytes bytes) {
      const size_t size = bytes.size();
      const std::shared_ptr<char> kept = std::move(bytes).Take();
      CHECK(size == 0 || std::memchr(kept.get(), 0, size) != kept.get() + size);  // reads every byte
    });
    fabric_->Start(kSelf);
    fabric_->WantFast();
  }
  UniqueFd Dial(bool tcp) {
    const auto addresses = fabric_->endpoint().addresses;
    const auto address = Address::Parse(tcp ? addresses.back() : addresses.front());
    return std::move(ConnectAndWait(*address, std::chrono::seconds(600))).value();
  }
  // Until all that was posted to the loop before has run, and what that posted.
  void AwaitLoop() {
    for (int i = 0; i < 2; ++i) {
      std::promise<void> done;
      fabric_->Send(kSelf, MessageHeader{}, Payload(), [&done](absl::Status) { done.set_value(); });
      done.get_future().get();
    }
  }
  SocketFabric& fabric() { return *fabric_; }

 private:
  std::unique_ptr<SocketFabric> fabric_;
};

// The other worker's end of a connection.
class RawSocket {
 public:
  explicit RawSocket(UniqueFd socket) : socket_(std::move(socket)) {
    fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
  }
  ~RawSocket() {
    for (const auto* mappings : {&mappings_, &shared_}) {
      for (const Mapping& mapping : *mappings) munmap(mapping.base, mapping.size);
    }
  }

  void Take(const PeerLinkInput::Frame& frame) {
    std::vector<UniqueFd> fds;
    for (const auto& memory : frame.memory()) {
      if (fds.size() < kFdsMax) fds.push_back(Make(memory));
    }
    Send(frame.type(), Body(frame), std::move(fds), frame.told_more());
    for (const auto& [base, memory] : later_) Fill(base, *memory);
    later_.clear();
  }
  // Until the other side has taken all and closed.
  template <typename Positions>
  void AwaitEnd(const Positions& read_to) {
    shutdown(socket_.get(), SHUT_WR);
    while (Receive(0)) SayRead(read_to);
  }
  // What is there already.
  template <typename Positions>
  void Look(const Positions& read_to) {
    while (Receive(MSG_DONTWAIT)) {
    }
    SayRead(read_to);
  }
  void Send(uint32_t type, const std::string& body) { Send(type, body, {}, 0); }

 private:
  struct Mapping {
    char* base;
    size_t size;
  };

  // Keeps the first page of memory that comes. False at the end.
  bool Receive(int flags) {
    char dropped[4096];
    alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))];
    iovec piece{dropped, sizeof(dropped)};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (TEMP_FAILURE_RETRY(recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | flags)) <= 0) return false;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
      for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= head->cmsg_len; at += sizeof(int)) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(head) + at, sizeof(fd));
        const UniqueFd owned(fd);
        void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED) shared_.push_back({static_cast<char*>(page), kPageBytes});  // else it's a bell
      }
    }
    return true;
  }
  // Into what the two share goes how far this side claims to have read; blocks are given back, or not.
  template <typename Positions>
  void SayRead(const Positions& read_to) {
    for (const Mapping& page : shared_) {
      if (read_to.empty()) return;
      const uint64_t position = read_to[looked_++ % read_to.size()];
      reinterpret_cast<RingControl*>(page.base)->consumed.store(position);
      auto* fast = reinterpret_cast<FastRingControl*>(page.base);
      fast->consumed.store(position);
      for (size_t i = 0; i < fast->held.size(); ++i) fast->held[i].store(position >> i & 1);
      fast->wanted.store(static_cast<FastWish>(position % 4));
    }
  }

  // A message may be as large as a shard can be, and a sanitizer's memory isn't.
  static uint64_t TamePayload(uint64_t size) { return size > uint64_t{1} << 38 ? size : size % kPayloadMax; }

  static std::string Body(const PeerLinkInput::Frame& frame) {
    using transport_wire::AsBytes;
    switch (frame.form_case()) {
      case PeerLinkInput::Frame::kMessage: {
        const std::string data = Again(frame.message().data(), std::min<size_t>(frame.message().size(), kBodyMax));
        return std::string(AsBytes(HeaderOf(frame.message().words()))) + data;
      }
      case PeerLinkInput::Frame::kHead:
        return std::string(
            AsBytes(transport_wire::MessageHead{HeaderOf(frame.head().words()), TamePayload(frame.head().size())}));
      case PeerLinkInput::Frame::kRingMessage:
        return std::string(AsBytes(transport_wire::RingMessage{
            HeaderOf(frame.ring_message().words()), {frame.ring_message().position(), frame.ring_message().size()}}));
      case PeerLinkInput::Frame::kRingChunk:
        return std::string(
            AsBytes(transport_wire::RingPlace{frame.ring_chunk().position(), frame.ring_chunk().size()}));
      default:
        return frame.body();
    }
  }

  void Send(uint32_t type, const std::string& body, std::vector<UniqueFd> fds, uint64_t told_more) {
    FrameHeader header;
    header.tagged_type = (type & 0xffffff) | static_cast<uint32_t>(fds.size()) << 24;
    header.body_bytes = body.size() + told_more;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes += body;
    std::string_view rest = bytes;
    while (!rest.empty()) {
      iovec piece{const_cast<char*>(rest.data()), rest.size()};
      alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        for (size_t i = 0; i < fds.size(); ++i) {
          const int fd = fds[i].get();
          std::memcpy(CMSG_DATA(head) + i * sizeof(fd), &fd, sizeof(fd));
        }
      }
      const ssize_t n = TEMP_FAILURE_RETRY(sendmsg(socket_.get(), &message, MSG_NOSIGNAL));
      if (n <= 0) return;  // the other side has closed
      rest.remove_prefix(static_cast<size_t>(n));
      fds.clear();
    }
  }

  UniqueFd Make(const PeerLinkInput::Memory& memory) {
    if (memory.kind() == PeerLinkInput::Memory::PIPE) {
      int ends[2];
      CHECK(pipe(ends) == 0);
      close(ends[1]);
      return UniqueFd(ends[0]);
    }
    if (memory.kind() == PeerLinkInput::Memory::DEVICE) return UniqueFd(open("/dev/zero", O_RDWR));
    const size_t size = memory.size() == 0 ? kFastRingBytes : std::min<size_t>(memory.size(), kMemoryMax);
    UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    CHECK(ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
    char* base = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    CHECK(base != MAP_FAILED);
    mappings_.push_back({base, size});
    if (memory.later()) {
      later_.emplace_back(mappings_.back(), &memory);
    } else {
      Fill(mappings_.back(), memory);
    }
    if (memory.kind() == PeerLinkInput::Memory::SEALED) {
      CHECK(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    }
    return fd;
  }

  static void Fill(const Mapping& to, const PeerLinkInput::Memory& memory) {
    if (to.size <= RingMemory::kControlBytes) return;
    if (!memory.data().empty()) {
      const size_t size = std::min(to.size - RingMemory::kControlBytes, kMemoryMax);
      std::memcpy(to.base + RingMemory::kControlBytes, Again(memory.data(), size).data(), size);
    }
    for (int i = 0; i < memory.slots_size(); ++i) {
      const size_t at = kFastSlotsBegin + static_cast<size_t>(i) * sizeof(FastSlot);
      if (at + sizeof(FastSlot) > to.size) break;
      auto* slot = reinterpret_cast<FastSlot*>(to.base + at);
      slot->header = HeaderOf(memory.slots(i).words());
      slot->size = memory.slots(i).size();
      slot->offset = memory.slots(i).offset();
      slot->block = memory.slots(i).block();
      std::memcpy(slot->bytes, memory.slots(i).data().data(),
                  std::min(memory.slots(i).data().size(), sizeof(slot->bytes)));
    }
    auto* control = reinterpret_cast<FastRingControl*>(to.base);
    control->consumed.store(memory.consumed());
    control->produced.store(memory.produced());
  }

  const UniqueFd socket_;
  std::vector<Mapping> mappings_, shared_;  // made here, and by the other side
  int looked_ = 0;
  std::vector<std::pair<Mapping, const PeerLinkInput::Memory*>> later_;
};

transport_wire::Hello HelloOf(WorkerId from, WorkerId to) {
  transport_wire::Hello hello;
  hello.from = from;
  hello.to = to;
  hello.cluster_id = hello.build = "fuzz";
  hello.secret = "secret";
  return hello;
}

// Worker `id` dials and sends.
void Dial(Listening& listening, WorkerId id, const PeerLinkInput& input) {
  RawSocket socket(listening.Dial(input.tcp()));
  PeerEndpoint endpoint;
  endpoint.secret = "secret";
  listening.fabric().SetPeers({{id, endpoint}});
  socket.Send(transport_wire::kHello, transport_wire::EncodeHello(HelloOf(id, kSelf)));
  for (int i = 0; i < input.frames_size() && i < kFramesMax; ++i) socket.Take(input.frames(i));
  socket.AwaitEnd(input.read_to());
  listening.fabric().RemovePeer(id);
}

// Worker `id` is dialled and answers.
void Answer(Listening& listening, WorkerId id, const PeerLinkInput& input) {
  static const ListenSocket& socket = *new ListenSocket(*Listen(Address::UniqueAbstract("fuzz")));
  PeerEndpoint endpoint = listening.fabric().endpoint();
  endpoint.addresses = {socket.address.ToString()};
  endpoint.secret = "secret";
  listening.fabric().SetPeers({{id, endpoint}});
  std::vector<int> ends(static_cast<size_t>(std::min(input.sent_size(), kFramesMax)), 0);  // the loop's thread counts
  for (size_t i = 0; i < ends.size(); ++i) {
    listening.fabric().Send(id, MessageHeader{},
                            Payload(std::string(input.sent(static_cast<int>(i)) % kPayloadMax, 's')),
                            [&ends, i](absl::Status) { ++ends[i]; });
  }
  pollfd dialled{socket.fd.get(), POLLIN, 0};
  CHECK(TEMP_FAILURE_RETRY(poll(&dialled, 1, -1)) == 1);  // libFuzzer has a timer
  RawSocket accepted(UniqueFd(accept4(socket.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  if (!input.unwelcome()) {
    accepted.Send(transport_wire::kWelcome, transport_wire::EncodeHello(HelloOf(id, kSelf)));
  }
  for (int i = 0; i < input.answers_size() && i < kFramesMax; ++i) accepted.Take(input.answers(i));
  if (input.sent_fast_size() > 0) listening.AwaitLoop();
  for (int i = 0; i < input.sent_fast_size() && i < kFramesMax; ++i) {
    const size_t size = input.sent_fast(i) % (Fabric::kFastBytesMax + 2);
    listening.fabric().TrySendFast(id, MessageHeader{}, size, [size](char* to) { std::memset(to, 'f', size); });
    accepted.Look(input.read_to());
  }
  accepted.AwaitEnd(input.read_to());
  listening.fabric().RemovePeer(id);
  listening.AwaitLoop();
  for (int count : ends) CHECK(count == 1);
}

void Run(const PeerLinkInput& input) {
  static const bool quiet = (InitLog("fuzz", LogLevel::kError, ""), true);
  (void)quiet;
  static Listening& listening = *new Listening;
  static uint64_t last_id = kSelf.value;
  if (input.frames_size() > 0) Dial(listening, WorkerId{++last_id}, input);
  if (input.sent_size() > 0) Answer(listening, WorkerId{++last_id}, input);
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::PeerLinkInput, switchtower::fuzz::Run)
