#include "inspect/status_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "inspect/text.h"

namespace switchtower {
namespace {

namespace pb = introspection;

std::string WorkerStateText(const pb::Worker& worker) {
  if (worker.state() == pb::Worker::WAITING) return "not in yet";
  if (worker.state() == pb::Worker::DOWN) return "lost";
  return worker.silent_us() > 0 ? "silent " + AgeText(worker.silent_us()) : "up";
}

uint64_t QueueDepth(const pb::Activity::Device& device) {
  return device.queued() + static_cast<uint64_t>(device.tasks_size());
}

// "this proxy, shared"
std::string HomeText(const pb::Snapshot& snapshot, const pb::Slice& slice) {
  if (slice.home_epoch() == 0) return "-";
  std::string where = slice.home_door().empty() ? "another proxy" : slice.home_door();
  for (const pb::Home& home : snapshot.homes()) {
    if (home.epoch() == slice.home_epoch()) where = "this proxy";
  }
  return fmt::format("{}, {}", where, slice.shared() ? "shared" : "exclusive");
}

void AddSlices(const pb::Snapshot& snapshot, std::string* text) {
  if (!snapshot.slices_error().empty()) *text += fmt::format("slices: {}\n", snapshot.slices_error());
  if (snapshot.slices_size() == 0) return;
  *text += fmt::format("{:<16} {:<12} {:>9} {:>9}  {}\n", "SLICE", "TYPE", "HOSTS IN", "DEVICES", "HOME");
  for (const pb::Slice& slice : snapshot.slices()) {
    *text += fmt::format("{:<16} {:<12} {:>9} {:>9}  {}\n", slice.name(), slice.type(),
                         fmt::format("{}/{}", slice.hosts_in_size(), slice.num_hosts()),
                         slice.num_hosts() * slice.devices_per_host(), HomeText(snapshot, slice));
  }
}

void AddWorkers(const pb::Home& home, std::string* text) {
  *text +=
      fmt::format("\n{:<22} {:<14} {:>7} {:>12} {:>12} {:>11} {:>8} {:>11} {:>11} {:>11} {:>11}\n", "WORKER", "STATE",
                  "DEVICES", "ARRAYS", "PEAK/DEVICE", "EXECUTIONS", "QUEUED", "IN MEMORY", "SHARED MEM", "TCP", "PUT");
  for (const pb::Worker& worker : home.workers()) {
    uint64_t bytes = 0, peak = 0, queued = 0;
    for (const pb::Activity::Device& device : worker.activity().devices()) {
      bytes += device.bytes();
      peak = std::max(peak, device.peak_bytes());
      queued += QueueDepth(device);
    }
    const pb::Stats& stats = worker.stats();
    *text +=
        fmt::format("{:<22} {:<14} {:>7} {:>12} {:>12} {:>11} {:>8} {:>11} {:>11} {:>11} {:>11}\n", worker.name(),
                    WorkerStateText(worker), worker.num_devices(), BytesText(bytes), BytesText(peak), stats.launches(),
                    queued, BytesText(stats.bytes_in_memory()), BytesText(stats.bytes_shared_memory()),
                    BytesText(stats.bytes_tcp()), BytesText(stats.bytes_put()));
  }
  for (const pb::Worker& worker : home.workers()) {
    for (const std::string& fault : worker.activity().fault_points()) {
      *text += fmt::format("{} has a fault point armed: {}\n", worker.name(), fault);
    }
  }
}

void AddSessions(const pb::Home& home, std::string* text) {
  *text += fmt::format("\n{:<17} {:<24} {:>8} {:>10} {:>10} {:>7}  {}\n", "SESSION", "CLIENT", "DEVICES", "LAUNCHES",
                       "IN FLIGHT", "QUEUED", "WAITS FOR");
  for (const std::string& peer : home.opening()) {
    *text += fmt::format("{:<17} {:<24} {:>8} {:>10} {:>10} {:>7}  slices\n", "(opens)", peer, "-", "-", "-", "-");
  }
  for (const pb::Session& session : home.sessions()) {
    std::string waits = session.queue_size() > 0 ? session.queue(0).waits_for() : "";
    for (const pb::Wait& wait : home.waits()) {
      if (wait.session() != session.id() || !waits.empty()) continue;
      waits =
          fmt::format("{} array{}, {}", wait.arrays_size(), wait.arrays_size() == 1 ? "" : "s", AgeText(wait.age_us()));
    }
    if (session.compiles() > 0 && waits.empty()) {
      waits = fmt::format("{} compile{}, {}", session.compiles(), session.compiles() == 1 ? "" : "s",
                          AgeText(session.compile_age_us()));
    }
    *text += fmt::format("{:<17} {:<24} {:>8} {:>10} {:>10} {:>7}  {}\n", SessionText(session.id()), session.peer(),
                         session.devices_size(), session.launches_sent(), session.launches_in_flight(),
                         session.operations_queued(), waits.empty() ? "-" : waits);
  }
}

void AddRelayed(const pb::Snapshot& snapshot, std::string* text) {
  if (snapshot.relayed_size() == 0) return;
  *text += fmt::format("\n{:<17} {:<24} {}\n", "RELAYED SESSION", "CLIENT", "HOME, WHICH TELLS MORE");
  for (const pb::RelayedSession& session : snapshot.relayed()) {
    *text += fmt::format("{:<17} {:<24} grpc://{}\n", SessionText(session.id()), session.peer(), session.home());
  }
}

void AddPrograms(const pb::Home& home, std::string* text) {
  if (home.programs_size() == 0) return;
  *text += fmt::format("\n{:<30} {:>6} {:>8} {:>8} {:>10}  {}\n", "PROGRAM", "USES", "RANKS", "WORKERS", "IN FLIGHT",
                       "SOURCE");
  for (const pb::Program& program : home.programs()) {
    int64_t in_flight = 0;
    for (const pb::Launch& launch : home.in_flight()) in_flight += launch.program() == program.id();
    *text += fmt::format("{:<30} {:>6} {:>8} {:>8} {:>10}  {}\n", program.name(), program.uses(),
                         program.num_partitions(), program.workers(), in_flight, program.source());
  }
}

// "jit_step 12 runs 3.2 s"
std::string HeadText(const pb::Activity::Device& device) {
  if (device.tasks_size() == 0) return "idle";
  const pb::Activity::Task& task = device.tasks(0);
  std::string text = fmt::format("{} {}", task.program(), task.launch().number());
  if (task.running()) return fmt::format("{} runs {}", text, AgeText(task.age_us()));
  if (task.program_loading()) return text + " is being loaded";
  return fmt::format("{} waits for {} argument{}, {}", text, task.missing_arguments_size(),
                     task.missing_arguments_size() == 1 ? "" : "s", AgeText(task.age_us()));
}

}  // namespace

std::string StatusText(const pb::Snapshot& snapshot) {
  std::string text = fmt::format("switchtower {}\n\n", snapshot.version());
  AddSlices(snapshot, &text);
  AddRelayed(snapshot, &text);
  if (snapshot.homes_size() == 0 && snapshot.relayed_size() == 0) text += "\nno session is open\n";
  for (const pb::Home& home : snapshot.homes()) {
    text += fmt::format("\nlease of {}: {} launches ({} in flight), {} transfers, {} puts, {} reads\n",
                        home.slices().empty() ? "the shared slices" : home.slices(), home.launches(),
                        home.launches_in_flight(), home.transfers(), home.puts(), home.reads());
    if (home.device_memory() > 0) {
      text += fmt::format("a device may hold {}\n", BytesText(static_cast<uint64_t>(home.device_memory())));
    }
    AddWorkers(home, &text);
    AddSessions(home, &text);
    AddPrograms(home, &text);
  }
  return text;
}

namespace {

// Of the time between two snapshots, how much launches had the device.
std::string BusyText(const pb::Home* earlier, const pb::Worker& worker, int ordinal, double seconds) {
  if (earlier == nullptr || seconds <= 0) return "-";
  for (const pb::Worker& before : earlier->workers()) {
    if (before.id() != worker.id() || ordinal >= before.activity().devices_size()) continue;
    const uint64_t then = before.activity().devices(ordinal).busy_ns();
    const uint64_t now = worker.activity().devices(ordinal).busy_ns();
    const double busy = now < then ? 0 : static_cast<double>(now - then) / 1e9 / seconds;
    return fmt::format("{:.0f}%", 100 * std::min(1.0, busy));
  }
  return "-";
}

}  // namespace

std::string TopText(const pb::Snapshot& before, const pb::Snapshot& now) {
  std::string text;
  for (const pb::Home& home : now.homes()) {
    const pb::Home* earlier = nullptr;
    for (const pb::Home& candidate : before.homes()) {
      if (candidate.epoch() == home.epoch() && candidate.slices() == home.slices()) earlier = &candidate;
    }
    const double seconds = static_cast<double>(now.time_us() - before.time_us()) / 1e6;
    text +=
        fmt::format("{}: {} sessions, {} launches in flight", home.slices().empty() ? "shared slices" : home.slices(),
                    home.sessions_size(), home.launches_in_flight());
    if (earlier != nullptr && seconds > 0) {
      text += fmt::format(", {:.1f} launches/s", static_cast<double>(home.launches() - earlier->launches()) / seconds);
    }
    text += fmt::format("\n{:<30} {:>6} {:>7} {:>12}  {}\n", "DEVICE", "BUSY", "QUEUE", "ARRAYS", "HEAD");
    for (const pb::Worker& worker : home.workers()) {
      if (worker.state() != pb::Worker::UP || worker.silent_us() > 0) {
        text += fmt::format("{:<30} {:>6} {:>7} {:>12}  {}\n", worker.name(), "-", "-", "-", WorkerStateText(worker));
        continue;
      }
      for (int ordinal = 0; ordinal < worker.activity().devices_size(); ++ordinal) {
        const pb::Activity::Device& device = worker.activity().devices(ordinal);
        text += fmt::format("{:<30} {:>6} {:>7} {:>12}  {}\n", fmt::format("{} device {}", worker.name(), ordinal),
                            BusyText(earlier, worker, ordinal, seconds), QueueDepth(device), BytesText(device.bytes()),
                            HeadText(device));
      }
    }
    text += "\n";
  }
  AddRelayed(now, &text);
  return text.empty() ? "no session is open\n" : text;
}

}  // namespace switchtower
