// status, top, why, trace: what a running proxy and its workers are at.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include "base/status_macros.h"
#include "cli/flags.h"
#include "inspect/introspection_client.h"
#include "inspect/status_text.h"
#include "inspect/trace_json.h"
#include "inspect/why.h"

namespace switchtower {
namespace {

struct TargetFlags {
  std::string target;
  int patience_ms = 500;
  bool json = false;

  void AddTo(CLI::App* app) {
    AddFlag(app, "target", target, "the proxy, as in JAX_BACKEND_TARGET: grpc://HOST:PORT")
        ->envname("JAX_BACKEND_TARGET");
  }
  void AddSnapshotTo(CLI::App* app) {
    AddTo(app);
    AddFlag(app, "patience-ms", patience_ms, "for how long workers that don't answer are waited for")
        ->check(CLI::Range(1, 5000));
    app->add_flag("--json", json, "print JSON, for scripts");
  }
};

absl::Status PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return absl::InternalError("the answer can't be written as JSON");
  }
  fmt::print("{}\n", text);
  return absl::OkStatus();
}

absl::Status Status(const TargetFlags& flags) {
  ASSIGN_OR_RETURN(const auto client, IntrospectionClient::Create(flags.target));
  ASSIGN_OR_RETURN(const introspection::Snapshot snapshot,
                   client->GetSnapshot(std::chrono::milliseconds(flags.patience_ms)));
  if (flags.json) return PrintJson(snapshot);
  fmt::print("{}", StatusText(snapshot));
  return absl::OkStatus();
}

absl::Status Why(const TargetFlags& flags, const std::vector<std::string>& words) {
  std::string target;
  for (const std::string& word : words) target += (target.empty() ? "" : " ") + word;
  ASSIGN_OR_RETURN(const auto client, IntrospectionClient::Create(flags.target));
  ASSIGN_OR_RETURN(const introspection::Snapshot snapshot,
                   client->GetSnapshot(std::chrono::milliseconds(flags.patience_ms)));
  ASSIGN_OR_RETURN(const introspection::WhyReport report, ExplainWhy(snapshot, target));
  if (flags.json) return PrintJson(report);
  fmt::print("{}", WhyText(report));
  return absl::OkStatus();
}

struct TopFlags {
  double interval_s = 1;
  int iterations = 0;  // 0: until interrupted
};

absl::Status Top(const TargetFlags& flags, const TopFlags& top) {
  ASSIGN_OR_RETURN(const auto client, IntrospectionClient::Create(flags.target));
  const std::chrono::milliseconds patience(flags.patience_ms);
  ASSIGN_OR_RETURN(introspection::Snapshot before, client->GetSnapshot(patience));
  const bool screen = isatty(STDOUT_FILENO) && top.iterations != 1;
  for (int i = 0; top.iterations == 0 || i < top.iterations; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(top.interval_s));
    ASSIGN_OR_RETURN(introspection::Snapshot now, client->GetSnapshot(patience));
    if (screen) fmt::print("\x1b[H\x1b[2J");  // home, clear
    fmt::print("{}", TopText(before, now));
    std::fflush(stdout);
    before = std::move(now);
  }
  return absl::OkStatus();
}

absl::Status Trace(const TargetFlags& flags, double seconds, const std::string& file) {
  ASSIGN_OR_RETURN(const auto client, IntrospectionClient::Create(flags.target));
  ASSIGN_OR_RETURN(IntrospectionClient::Trace trace,
                   client->Record(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))));
  const size_t events = trace.events.size();
  const uint64_t dropped = trace.dropped;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << TraceJson(std::move(trace.events), dropped);
  out.close();
  if (!out) return absl::UnavailableError(fmt::format("{} can't be written", file));
  fmt::print("{} events in {}{}; open it at https://ui.perfetto.dev\n", events, file,
             dropped > 0 ? fmt::format(", {} more found no room", dropped) : "");
  return absl::OkStatus();
}

int Finish(const absl::Status& status) { return status.ok() ? 0 : Fail(status); }

}  // namespace

void AddInspect(CLI::App& app, RoleMain& run) {
  auto flags = std::make_shared<TargetFlags>();
  CLI::App* status =
      app.add_subcommand("status", "slices, workers, sessions, programs and memory of a running cluster");
  flags->AddSnapshotTo(status);
  status->callback([flags, &run] { run = [flags] { return Finish(Status(*flags)); }; });

  auto top_flags = std::make_shared<TopFlags>();
  CLI::App* top = app.add_subcommand("top", "each device, live: how busy it is, its queue and what is at the head");
  flags->AddTo(top);
  AddFlag(top, "interval", top_flags->interval_s, "seconds between two looks")->check(CLI::Range(0.1, 3600.0));
  AddFlag(top, "iterations", top_flags->iterations, "how many looks; 0: until interrupted")
      ->check(CLI::NonNegativeNumber);
  top->add_flag_callback(
      "--once", [top_flags] { top_flags->iterations = 1; }, "one look, as --iterations 1");
  top->callback([flags, top_flags, &run] { run = [flags, top_flags] { return Finish(Top(*flags, *top_flags)); }; });

  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* why = app.add_subcommand(
      "why",
      "what something waits for, down to a launch, a transfer or a host: why [session ID | array ID | device ID | "
      "device SLICE/HOST/DEVICE]; nothing: all that clients wait for");
  flags->AddSnapshotTo(why);
  why->add_option("what", *words, "what to explain")->expected(0, 2);
  why->callback([flags, words, &run] { run = [flags, words] { return Finish(Why(*flags, *words)); }; });

  auto seconds = std::make_shared<double>(2);
  auto file = std::make_shared<std::string>();
  CLI::App* trace = app.add_subcommand("trace", "records what happens, as a file for Perfetto or chrome://tracing");
  flags->AddTo(trace);
  AddFlag(trace, "seconds", *seconds, "for how long")->check(CLI::Range(0.001, 600.0));
  trace->add_option("-o,--output", *file, "the file to write")->required();
  trace->callback([flags, seconds, file, &run] {
    run = [flags, seconds, file] { return Finish(Trace(*flags, *seconds, *file)); };
  });
}

}  // namespace switchtower
