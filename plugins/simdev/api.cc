// The table of the PJRT C ABI of the simulated devices. Entries that Switchtower doesn't call are null.
#include "plugins/simdev/api.h"

namespace {

simdev::abi::PJRT_Api MakeApi() {
  simdev::abi::PJRT_Api api{};
  api.struct_size = sizeof(api);
  api.pjrt_api_version = {sizeof(simdev::abi::PJRT_Api_Version), nullptr, 0, 115};
  simdev::AddClientEntries(api);
  simdev::AddProgramEntries(api);
  simdev::AddBufferEntries(api);
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const simdev::abi::PJRT_Api* GetPjrtApi() {
  static const simdev::abi::PJRT_Api api = MakeApi();
  return &api;
}
