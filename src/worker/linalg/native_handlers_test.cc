// The list that compiler and workers share is what the workers have.
#include "worker/linalg/native_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hlo/native_calls.h"

namespace switchtower {
namespace {

using ::testing::UnorderedElementsAreArray;

TEST(NativeHandlersTest, AreTheSharedList) {
  std::vector<std::string> names;
  for (const NativeHandler& handler : NativeHandlers()) {
    EXPECT_NE(handler.handler, nullptr);
    names.push_back(handler.target);
  }
  EXPECT_THAT(names,
              UnorderedElementsAreArray(std::vector<std::string>(std::begin(kNativeCalls), std::end(kNativeCalls))));
}

}  // namespace
}  // namespace switchtower
