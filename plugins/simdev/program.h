// A simulated program: what it takes and makes, and how it misbehaves. The text form is in README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt/abi.h"

namespace simdev {

struct Output {
  switchtower::pjrt::abi::PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
};

struct Program {
  std::string text;  // as given
  std::string name = "simdev";
  int64_t compute_us = 0;
  int64_t temp_bytes = 0;
  int64_t fail_every = 0;
  std::vector<Output> outputs;
  std::vector<std::pair<int64_t, int64_t>> aliases;  // result, parameter

  // An empty string, or what is wrong with `text`.
  static std::string Parse(const std::string& text, Program* program);
};

// 0 for an unknown type.
int64_t ElementBytes(switchtower::pjrt::abi::PJRT_Buffer_Type type);
int64_t Bytes(switchtower::pjrt::abi::PJRT_Buffer_Type type, const std::vector<int64_t>& dims);

}  // namespace simdev
