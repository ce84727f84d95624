// CHECK: a broken invariant of ours ends the process with a message. What comes from outside is an
// absl::Status, never a CHECK.
#pragma once

namespace switchtower {
[[noreturn]] void CheckFailed(const char* file, int line, const char* what);
}  // namespace switchtower

#define CHECK(cond)                                                     \
  do {                                                                  \
    if (!(cond)) ::switchtower::CheckFailed(__FILE__, __LINE__, #cond); \
  } while (false)
#define CHECK_OK(expr) CHECK((expr).ok())
