// Buffers of PjrtEngine on the real CPU plug-in: every element type, layouts, memories.
#include <complex>
#include <cstring>

#include <gmock/gmock.h>

#include "worker/engine/host_layout.h"
#include "worker/engine/testing_engine.h"

namespace switchtower {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(CreatePjrtEngineTest, ReportsAMissingPlugin) {
  const auto engine = CreatePjrtEngine({.plugin_path = "/nowhere.so"});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PjrtEngineTest, TellsWhatItsDevicesAre) {
  EXPECT_EQ(engine_->device_count(), 2);
  const DeviceType& type = engine_->device_type();
  EXPECT_EQ(type.platform, "cpu");
  EXPECT_EQ(type.device_kind, "cpu");
  EXPECT_FALSE(type.instruction_set.empty());
  EXPECT_THAT(type.memory_kinds, ElementsAre("device", "pinned_host", "unpinned_host"));
  EXPECT_NE(engine_->DeviceName(0), engine_->DeviceName(1));
  EXPECT_TRUE(engine_->capabilities().host_readable);
}

TEST_F(PjrtEngineTest, CountsMemoryWhereThePluginDoes) {
  const auto use = engine_->GetMemoryUse(0);
  EXPECT_TRUE(use.ok() || use.status().code() == absl::StatusCode::kUnimplemented) << use.status();
  EXPECT_EQ(engine_->GetMemoryUse(2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PjrtEngineTest, KeepsBitsOfEveryElementType) {
  for (int number = 1; number <= 33; ++number) {
    const DType dtype = static_cast<DType>(number);
    if (!IsKnown(dtype) || HostBytes(dtype) == 0) continue;
    const Shape shape{dtype, {2, 3}};
    std::vector<char> bytes(static_cast<size_t>(shape.host_bytes()));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37 + 1);
    if (dtype == DType::kPred) bytes = {0, 1, 1, 0, 1, 0};
    if (IsSubByte(dtype)) NormalizeElements(dtype, bytes.data(), shape.elements());
    auto owner = std::make_shared<std::vector<char>>(bytes);
    const auto buffer = engine_->FromHost(1, "", {.data = owner->data(), .owner = owner, .shape = shape});
    ASSERT_TRUE(buffer.ok()) << Name(dtype) << " " << buffer.status();
    EXPECT_EQ((*buffer)->shape(), shape);
    EXPECT_EQ((*buffer)->device(), 1);
    const auto back = Get<char>(*buffer);
    ASSERT_TRUE(back.ok()) << Name(dtype) << " " << back.status();
    EXPECT_THAT(*back, ElementsAreArray(bytes)) << Name(dtype);
  }
}

TEST_F(PjrtEngineTest, Int4IsOneByteAnElementOnTheHost) {
  // Only the low bits of what comes count.
  const auto buffer = Put<uint8_t>({DType::kS4, {5}}, {0x01, 0x0f, 0xf8, 0x07, 0x0e});
  EXPECT_THAT(Get<int8_t>(buffer).value(), ElementsAre(1, -1, -8, 7, -2));
  const auto unsigned_buffer = Put<uint8_t>({DType::kU4, {3}}, {1, 15, 8});
  EXPECT_THAT(Get<uint8_t>(unsigned_buffer).value(), ElementsAre(1, 15, 8));
}

TEST_F(PjrtEngineTest, HostViewShowsTheBytesInPlace) {
  const auto buffer = Put<float>({DType::kF32, {3}}, {1, 2, 3});
  ASSERT_TRUE(Get<float>(buffer).ok());
  const auto view = buffer->HostView();
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_FALSE(view->packed);
  ASSERT_EQ(view->size, 12);
  EXPECT_EQ(static_cast<const float*>(view->data)[2], 3);

  const auto nibbles = Put<int8_t>({DType::kS4, {5}}, {1, -1, -8, 7, -2});
  ASSERT_TRUE(Get<int8_t>(nibbles).ok());
  const auto small = nibbles->HostView();
  ASSERT_TRUE(small.ok()) << small.status();
  std::vector<char> values(5);
  if (small->packed) {
    ASSERT_EQ(small->size, 3);
    UnpackElements(DType::kS4, static_cast<const char*>(small->data), 5, values.data());
  } else {
    ASSERT_EQ(small->size, 5);
    memcpy(values.data(), small->data, 5);
    NormalizeElements(DType::kS4, values.data(), 5);
  }
  EXPECT_THAT(values, ElementsAre(1, -1, -8, 7, -2));
}

TEST_F(PjrtEngineTest, ScalarAndEmpty) {
  const auto scalar = Put<double>({DType::kF64, {}}, {2.5});
  EXPECT_THAT(Get<double>(scalar).value(), ElementsAre(2.5));
  EXPECT_EQ(scalar->layout(), Layout::Default(0));
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{0}, {3, 0}, {0, 4, 2}}) {
    const auto empty = Put<float>({DType::kF32, dims}, {});
    ASSERT_NE(empty, nullptr);
    EXPECT_TRUE(Get<float>(empty).value().empty());
    EXPECT_TRUE(empty->HostView().ok());
  }
}

TEST_F(PjrtEngineTest, ReadsStridedHostData) {
  // Column-major source of [[1,2,3],[4,5,6]].
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  HostData host{.data = columns.data(), .shape = {DType::kF32, {2, 3}}, .byte_strides = {4, 8}};
  auto buffer = engine_->FromHost(0, "", host);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_THAT(Get<float>(*buffer).value(), ElementsAre(1, 2, 3, 4, 5, 6));
  // Every second element, and one row repeated.
  const std::vector<int16_t> values = {1, 0, 2, 0, 3, 0};
  host = {.data = values.data(), .shape = {DType::kS16, {2, 3}}, .byte_strides = {0, 4}};
  buffer = engine_->FromHost(0, "", host);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_THAT(Get<int16_t>(*buffer).value(), ElementsAre(1, 2, 3, 1, 2, 3));
  host.byte_strides = {4};
  EXPECT_FALSE(engine_->FromHost(0, "", host).ok());
}

TEST_F(PjrtEngineTest, ReadsStridedInt4) {
  const std::vector<int8_t> columns = {1, -4, 2, -5, 3, -6};
  const HostData host{.data = columns.data(), .shape = {DType::kS4, {2, 3}}, .byte_strides = {1, 2}};
  const auto buffer = engine_->FromHost(0, "", host);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_THAT(Get<int8_t>(*buffer).value(), ElementsAre(1, 2, 3, -4, -5, -6));
}

TEST_F(PjrtEngineTest, LayoutsOnDeviceAndHost) {
  const Layout columns{{0, 1}};
  const auto buffer = Put<std::complex<float>>({DType::kC64, {2, 2}}, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, 0, columns);
  EXPECT_EQ(buffer->layout(), columns);
  using C = std::complex<float>;
  EXPECT_THAT(Get<C>(buffer).value(), ElementsAre(C(1, 2), C(3, 4), C(5, 6), C(7, 8)));
  EXPECT_THAT(Get<C>(buffer, columns).value(), ElementsAre(C(1, 2), C(5, 6), C(3, 4), C(7, 8)));
  const auto view = buffer->HostView();
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(static_cast<const C*>(view->data)[1], C(5, 6));
}

TEST_F(PjrtEngineTest, KeepsHostDataUntilItIsRead) {
  std::weak_ptr<std::vector<float>> watch;
  EngineBufferPtr buffer;
  {
    auto owner = std::make_shared<std::vector<float>>(1 << 20, 1.5f);
    watch = owner;
    auto made = engine_->FromHost(0, "", {.data = owner->data(), .owner = owner, .shape = {DType::kF32, {1 << 20}}});
    ASSERT_TRUE(made.ok());
    buffer = *made;
  }
  const auto values = Get<float>(buffer);
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(values->back(), 1.5f);
  buffer.reset();
  EXPECT_TRUE(watch.expired());
}

TEST_F(PjrtEngineTest, CopiesToMemoriesAndDevices) {
  const auto buffer = Put<float>({DType::kF32, {2}}, {1, 2});
  for (const std::string& kind : engine_->device_type().memory_kinds) {
    const auto copy = engine_->CopyToMemory(buffer, kind);
    ASSERT_TRUE(copy.ok()) << kind << " " << copy.status();
    EXPECT_EQ((*copy)->memory_kind(), kind);
    EXPECT_THAT(Get<float>(*copy).value(), ElementsAre(1, 2));
    // A copy of its own.
    const auto back = engine_->CopyToDevice(*copy, 1, "");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ((*back)->device(), 1);
    (*copy)->Delete();
    EXPECT_THAT(Get<float>(*back).value(), ElementsAre(1, 2));
    EXPECT_FALSE(buffer->IsDeleted());
  }
  EXPECT_THAT(Get<float>(buffer).value(), ElementsAre(1, 2));
  EXPECT_EQ(engine_->CopyToMemory(buffer, "no such").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->CopyToDevice(buffer, 2, "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PjrtEngineTest, RefusesWhatCantBe) {
  const float value = 1;
  EXPECT_FALSE(engine_->FromHost(7, "", {.data = &value, .shape = {DType::kF32, {}}}).ok());
  EXPECT_FALSE(engine_->FromHost(0, "", {.data = &value, .shape = {DType::kString, {}}}).ok());
  EXPECT_FALSE(engine_->FromHost(0, "", {.data = &value, .shape = {DType::kF32, {-1}}}).ok());
  const auto buffer = Put<float>({DType::kF32, {}}, {1});
  std::promise<absl::Status> done;
  char small[2];
  engine_->ToHost(buffer, small, 2, std::nullopt, [&](absl::Status status) { done.set_value(status); });
  EXPECT_EQ(done.get_future().get().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PjrtEngineTest, DeletedBuffersGiveErrors) {
  const auto buffer = Put<float>({DType::kF32, {}}, {1});
  EXPECT_FALSE(buffer->IsDeleted());
  buffer->Delete();
  EXPECT_TRUE(buffer->IsDeleted());
  EXPECT_FALSE(Get<float>(buffer).ok());
  EXPECT_FALSE(buffer->HostView().ok());
  EXPECT_EQ(buffer->shape(), (Shape{DType::kF32, {}}));
}

}  // namespace
}  // namespace switchtower
