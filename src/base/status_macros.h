// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status and absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                \
  do {                                       \
    ::absl::Status st_status_ = (expr);      \
    if (!st_status_.ok()) return st_status_; \
  } while (false)

#define ST_CONCAT_INNER_(a, b) a##b
#define ST_CONCAT_(a, b) ST_CONCAT_INNER_(a, b)

#define ASSIGN_OR_RETURN(lhs, expr) ST_ASSIGN_OR_RETURN_(ST_CONCAT_(st_statusor_, __LINE__), lhs, expr)
#define ST_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                         \
  if (!tmp.ok()) return tmp.status();        \
  lhs = std::move(tmp).value()
