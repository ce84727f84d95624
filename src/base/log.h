// Logging in the house style: lower case, values after names, no final dot.
//
//   LogInfo("lease {} revoked, host {} silent for {} ms", lease, host, ms);
//
// Threads:  all functions from any thread. InitLog once, at the start of main; without it messages of level warn and
//           above go to stderr.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace switchtower {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

// `role` is printed on each line ("proxy", "worker 3"). An empty `file` logs to stderr; otherwise
// lines go to the file, and those of level warn and above to stderr too.
void InitLog(std::string_view role, LogLevel level, const std::string& file);
bool LogEnabled(LogLevel level);
void LogMessage(LogLevel level, std::string_view message);
void FlushLog();

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) {
    LogMessage(level, fmt::format(format, std::forward<Args>(args)...));
  }
}
#define ST_DEFINE_LOG_(name, level)                               \
  template <typename... Args>                                     \
  void name(fmt::format_string<Args...> format, Args&&... args) { \
    Log(level, format, std::forward<Args>(args)...);              \
  }
ST_DEFINE_LOG_(LogTrace, LogLevel::kTrace)
ST_DEFINE_LOG_(LogDebug, LogLevel::kDebug)
ST_DEFINE_LOG_(LogInfo, LogLevel::kInfo)
ST_DEFINE_LOG_(LogWarn, LogLevel::kWarn)
ST_DEFINE_LOG_(LogError, LogLevel::kError)
#undef ST_DEFINE_LOG_

}  // namespace switchtower
