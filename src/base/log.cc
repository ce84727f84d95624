#include "base/log.h"

#include <atomic>
#include <memory>
#include <vector>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace switchtower {
namespace {

std::atomic<int> g_level{static_cast<int>(LogLevel::kWarn)};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger>& Logger() {
  static auto* logger = new std::shared_ptr<spdlog::logger>(
      std::make_shared<spdlog::logger>("switchtower", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  return *logger;
}

}  // namespace

void InitLog(std::string_view role, LogLevel level, const std::string& file) {
  auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::vector<spdlog::sink_ptr> sinks{to_stderr};
  if (!file.empty()) {
    to_stderr->set_level(spdlog::level::warn);
    sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(role), sinks.begin(), sinks.end());
  logger->set_level(ToSpdlog(level));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %L [%n] %v");
  logger->flush_on(spdlog::level::info);
  Logger() = std::move(logger);
  g_level = static_cast<int>(level);
}

bool LogEnabled(LogLevel level) { return static_cast<int>(level) >= g_level.load(std::memory_order_relaxed); }

void LogMessage(LogLevel level, std::string_view message) {
  Logger()->log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

void FlushLog() { Logger()->flush(); }

}  // namespace switchtower
