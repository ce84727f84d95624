// For targets whose input is a serialised message: mutations then keep the input a message (proto_mutator.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "google/protobuf/message.h"
#include "google/protobuf/stubs/logging.h"

namespace switchtower::fuzz {

// An empty input of the target that is linked in.
std::unique_ptr<google::protobuf::Message> NewInput();

template <typename Input>
int RunOnMessage(const uint8_t* data, size_t size, void (*run)(const Input&)) {
  static google::protobuf::LogSilencer quiet;  // the parser logs each string that isn't UTF-8
  Input input;
  if (input.ParseFromArray(data, static_cast<int>(size))) run(input);
  return 0;
}

}  // namespace switchtower::fuzz

// Makes `void Run(const Input&)` the target.
#define PROTO_FUZZ_TARGET(Input, Run)                                                                            \
  std::unique_ptr<google::protobuf::Message> switchtower::fuzz::NewInput() { return std::make_unique<Input>(); } \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {                                      \
    return switchtower::fuzz::RunOnMessage<Input>(data, size, Run);                                              \
  }
