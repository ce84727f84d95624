// A plug-in of a PJRT C API from before the first that we can use; for pjrt_test.
#include "pjrt/abi.h"

namespace abi = switchtower::pjrt::abi;

extern "C" const abi::PJRT_Api* GetPjrtApi() {
  static abi::PJRT_Api api = {};
  api.struct_size = sizeof(api);
  api.pjrt_api_version.major_version = abi::kMajorVersion;
  api.pjrt_api_version.minor_version = abi::kMinMinorVersion - 1;
  return &api;
}
