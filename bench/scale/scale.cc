// What one launch costs the controller, by workers, devices and arrays. Prints a JSON line for each case.
//
//   scale [--workers 1,8,64,512,1024,2048] [--arrays 1,64] [--devices 8] [--ahead 1,16] [--seconds 0.4]
//         [--device-memory BYTES] [--policy fifo]            workers in this process (sink_workers.h)
//   scale --sockets 512 [--loops 1,2] [--address tcp:127.0.0.1:0] ...   behind as many connections (sink_process.h)
//
// A step takes `arrays` arrays cut over all devices and gives as many; then the client drops the old ones. `ahead`
// launches are sent before their ends are told together; behind sockets no more than `ahead` are under way.
// CPU time is that of the whole process, client's part included.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/check.h"
#include "base/net/event_loop.h"
#include "child_server.h"
#include "controller/cluster/socket_worker_channel.h"
#include "process_use.h"
#include "scale/measured_controller.h"
#include "scale/sink_process.h"
#include "scale/sink_workers.h"

namespace switchtower::bench {
namespace {

struct Settings {
  std::vector<int> workers = {1, 8, 64, 512, 1024, 2048};
  std::vector<int> arrays = {1, 64};
  std::vector<int> ahead = {1, 16};
  std::vector<int> loops = {1};
  int devices = 8;
  double seconds = 0.4;
  int64_t device_memory = 0;
  std::string policy = "fifo";
  int sockets = 0;
  std::string address = "tcp:127.0.0.1:0";
};

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string CaseWords(const char* mode, const Settings& settings, int workers, int arrays, int ahead) {
  return fmt::format(
      R"("mode": "{}", "workers": {}, "devices": {}, "arrays": {}, "ahead": {}, "device_memory": {}, "policy": "{}")",
      mode, workers, workers * settings.devices, arrays, ahead, settings.device_memory, settings.policy);
}

void Print(const std::string& words, const std::string& figures) {
  fmt::print("{{{}, {}}}\n", words, figures);
  std::fflush(stdout);
}

// Workers in this process.
void MeasureInProcess(const Settings& settings, int workers, int arrays) {
  const int64_t heap_before = HeapBytes();
  SinkWorkers sinks;
  MeasuredController controller(
      {{workers, settings.devices}, settings.device_memory, settings.policy, &sinks, /*command_addresses=*/{}});
  const auto told = [&] { return controller.launches() * static_cast<uint64_t>(workers); };
  controller.Prepare(arrays);
  sinks.AwaitLaunches(told());
  const int64_t heap_ready = HeapBytes();
  const auto round = [&](int launches) {
    for (int i = 0; i < launches; ++i) controller.Step();
    sinks.AwaitLaunches(told());
    sinks.Answer();
    controller.AwaitEnd();
  };
  for (int ahead : settings.ahead) {
    round(ahead);
    round(ahead);
    const int64_t heap_idle = HeapBytes();
    for (int i = 0; i < ahead; ++i) controller.Step();
    sinks.AwaitLaunches(told());
    const int64_t heap_in_flight = HeapBytes() - heap_idle;
    sinks.Answer();
    controller.AwaitEnd();
    const SinkWorkers::Counts counts = sinks.counts();
    const uint64_t launches_before = controller.launches();
    const int64_t cpu_before = OwnCpuNs();
    const double end = Seconds() + settings.seconds;
    do {
      round(ahead);
    } while (Seconds() < end);
    const auto launches = static_cast<double>(controller.launches() - launches_before);
    const double cpu_us = static_cast<double>(OwnCpuNs() - cpu_before) / 1e3 / launches;
    Print(CaseWords("in_process", settings, workers, arrays, ahead),
          fmt::format(
              R"("launches": {}, "cpu_us_per_launch": {:.2f}, "cpu_ns_per_launch_and_worker": {:.1f}, )"
              R"("commands_per_launch": {:.1f}, "bytes_encoded_per_launch": {:.0f}, "bytes_sent_per_launch": {:.0f}, )"
              R"("heap_bytes_per_launch_in_flight": {}, "heap_bytes_per_worker": {}, "resident_mb": {})",
              launches, cpu_us, cpu_us * 1e3 / workers,
              static_cast<double>(sinks.counts().commands - counts.commands) / launches,
              static_cast<double>(sinks.counts().encoded_bytes - counts.encoded_bytes) / launches,
              static_cast<double>(sinks.counts().sent_bytes - counts.sent_bytes) / launches, heap_in_flight / ahead,
              (heap_ready - heap_before) / workers, ResidentBytes() >> 20));
  }
}

// Workers behind sockets of another process.
void MeasureSockets(const Settings& settings, int arrays, int loops) {
  absl::StatusOr<std::unique_ptr<ChildServer>> sink = ChildServer::Start({"--serve-sink", settings.address});
  if (!sink.ok()) {
    fmt::print(stderr, "{}\n", sink.status().ToString());
    std::exit(1);
  }
  const int64_t heap_before = HeapBytes();
  std::vector<std::unique_ptr<EventLoop>> owned;
  SocketConnector::Options options;
  for (int i = 0; i < loops; ++i) {
    owned.push_back(*EventLoop::Create("workers"));
    options.loops.push_back(owned.back().get());
  }
  options.cluster_id = [] { return std::string(); };
  options.controller = "bench";
  SocketConnector connector(options);
  {
    MeasuredController controller({{settings.sockets, settings.devices},
                                   settings.device_memory,
                                   settings.policy,
                                   &connector,
                                   {(*sink)->address()}});
    const double connecting = Seconds();
    controller.Prepare(arrays);
    controller.AwaitState();
    const double connected_s = Seconds() - connecting;
    const int64_t heap_ready = HeapBytes();
    for (int ahead : settings.ahead) {
      const auto run = [&](double seconds) {
        const double end = Seconds() + seconds;
        do {
          controller.Step();
          controller.AwaitBelow(static_cast<size_t>(ahead) - 1);
        } while (Seconds() < end);
        controller.AwaitEnd();
      };
      run(settings.seconds / 4);
      const uint64_t launches_before = controller.launches();
      const int64_t cpu_before = OwnCpuNs(), sink_before = (*sink)->CpuNs();
      std::map<std::string, int64_t> threads_before = OwnCpuNsByThread();
      const double begin = Seconds();
      run(settings.seconds);
      const double took_s = Seconds() - begin;
      const auto launches = static_cast<double>(controller.launches() - launches_before);
      const auto per_launch_us = [&](int64_t ns) { return static_cast<double>(ns) / 1e3 / launches; };
      std::map<std::string, int64_t> threads = OwnCpuNsByThread();
      const double cpu_us = per_launch_us(OwnCpuNs() - cpu_before);
      Print(
          CaseWords("sockets", settings, settings.sockets, arrays, ahead),
          fmt::format(R"("loops": {}, "launches": {}, "launches_per_s": {:.1f}, "cpu_us_per_launch": {:.2f}, )"
                      R"("cpu_ns_per_launch_and_worker": {:.1f}, "cpu_us_socket_threads": {:.2f}, )"
                      R"("cpu_us_controller_threads": {:.2f}, "sink_cpu_us_per_launch": {:.2f}, "connect_s": {:.2f}, )"
                      R"("heap_bytes_per_worker": {}, "resident_mb": {})",
                      loops, launches, launches / took_s, cpu_us, cpu_us * 1e3 / settings.sockets,
                      per_launch_us(threads["workers"] - threads_before["workers"]),
                      per_launch_us(threads["controller"] - threads_before["controller"]),
                      per_launch_us((*sink)->CpuNs() - sink_before), connected_s,
                      (heap_ready - heap_before) / settings.sockets, ResidentBytes() >> 20));
    }
  }
}

int Main(int argc, char** argv) {
  Settings settings;
  std::string serve_sink;
  CLI::App app("What one launch costs the controller, by workers, devices and arrays");
  app.add_option("--workers", settings.workers, "numbers of workers")->delimiter(',');
  app.add_option("--arrays", settings.arrays, "arrays that a step takes and gives")->delimiter(',');
  app.add_option("--ahead", settings.ahead, "launches sent before their ends are told")->delimiter(',');
  app.add_option("--devices", settings.devices, "devices of a worker");
  app.add_option("--seconds", settings.seconds, "for each case");
  app.add_option("--device-memory", settings.device_memory, "bytes of a device; 0: not counted");
  app.add_option("--policy", settings.policy, "fifo, priority, share, pipeline");
  app.add_option("--sockets", settings.sockets, "as many connections to a sink process, in place of --workers");
  app.add_option("--loops", settings.loops, "threads that serve the connections")->delimiter(',');
  app.add_option("--address", settings.address, "where the sink process listens");
  app.add_option("--serve-sink", serve_sink, "be the sink process")->group("");
  CLI11_PARSE(app, argc, argv);
  // A descriptor for each connection.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (!serve_sink.empty()) return RunSink(serve_sink);
  for (int arrays : settings.arrays) {
    if (settings.sockets > 0) {
      for (int loops : settings.loops) MeasureSockets(settings, arrays, loops);
      continue;
    }
    for (int workers : settings.workers) MeasureInProcess(settings, workers, arrays);
  }
  return 0;
}

}  // namespace
}  // namespace switchtower::bench

int main(int argc, char** argv) { return switchtower::bench::Main(argc, argv); }
