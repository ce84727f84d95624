#include "cli/cluster_summary.h"

#include <future>

#include <fmt/format.h>

#include "inspect/text.h"

namespace switchtower {

std::string FormatSummary(const ControllerSnapshot& snapshot) {
  std::string text;
  std::vector<HomeSnapshot> homes = snapshot.ended;
  homes.insert(homes.end(), snapshot.homes.begin(), snapshot.homes.end());
  for (const HomeSnapshot& home : homes) {
    text += fmt::format("{} launches, {} transfers, {} puts and {} reads were sequenced\n", home.launches,
                        home.transfers, home.puts, home.reads);
    text += fmt::format("{:<20} {:>10} {:>12} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "worker", "executions",
                        "collectives", "in memory", "shared mem", "tcp", "put", "read");
    for (const WorkerSnapshot& worker : home.workers) {
      if (worker.state != WorkerSnapshot::State::kUp) continue;
      const WorkerStats& stats = worker.stats;
      text += fmt::format("{:<20} {:>10} {:>12} {:>11} {:>11} {:>11} {:>11} {:>11}\n", worker.name, stats.launches,
                          stats.collectives, BytesText(stats.bytes_in_memory), BytesText(stats.bytes_shared_memory),
                          BytesText(stats.bytes_tcp), BytesText(stats.bytes_put), BytesText(stats.bytes_read));
    }
  }
  return text;
}

std::string SummaryOf(ControllerIntrospection& controller) {
  auto promise = std::make_shared<std::promise<ControllerSnapshot>>();
  std::future<ControllerSnapshot> snapshot = promise->get_future();
  controller.Snapshot([promise](ControllerSnapshot value) { promise->set_value(std::move(value)); });
  return FormatSummary(snapshot.get());
}

}  // namespace switchtower
