#include "hlo/host_callbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace switchtower {
namespace {

using ::testing::ElementsAre;

xla::HloInstructionProto Call(const std::string& target, const std::string& attributes) {
  xla::HloInstructionProto call;
  call.set_opcode("custom-call");
  call.set_custom_call_target(target);
  call.set_custom_call_api_version(xla::API_VERSION_TYPED_FFI);
  call.set_backend_config(attributes);
  return call;
}

TEST(HostCallbacksTest, ReadsTheNumber) {
  for (const std::string& target : HostCallbackTargets()) {
    const auto call = Call(target, "{index = 18446744073709551615 : ui64}");
    EXPECT_TRUE(IsHostCallback(call));
    EXPECT_EQ(HostCallbackOf(call).value(), 18446744073709551615u);
  }
  EXPECT_FALSE(IsHostCallback(Call("lapack_sgetrf_ffi", "{}")));
}

TEST(HostCallbacksTest, RefusesOtherAttributes) {
  for (const char* attributes :
       {"", "{}", "{index = -1 : ui64}", "{index = 1 : i64}", "{index = 1 : ui64, handler = 2 : ui64}",
        "{index = 99999999999999999999 : ui64}", "{descriptor = 1 : ui64}"}) {
    EXPECT_EQ(HostCallbackOf(Call(host_callback_target::kWhole, attributes)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << attributes;
  }
  auto untyped = Call(host_callback_target::kWhole, "{index = 1 : ui64}");
  untyped.set_custom_call_api_version(xla::API_VERSION_STATUS_RETURNING);
  EXPECT_FALSE(HostCallbackOf(untyped).ok());
}

TEST(HostCallbacksTest, ListsThoseOfAModule) {
  xla::HloModuleProto module;
  for (const char* index : {"9", "2"}) {
    auto* computation = module.add_computations();
    for (int i = 0; i < 2; ++i) {
      *computation->add_instructions() =
          Call(host_callback_target::kWhole, std::string("{index = ") + index + " : ui64}");
    }
  }
  EXPECT_THAT(HostCallbacksIn(module), ElementsAre(2u, 9u));
}

}  // namespace
}  // namespace switchtower
