// The bytes of host arrays in workers: strided regions, boxes, packed types.
//
// Elements that go to a region and back, or into packed bytes and back, are what they were. Strides that a client may
// use are good for a worker, but for those that spread a few bytes far.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "controller/api/fake_arrays.h"
#include "wire/ifrt/shape.h"
#include "worker/engine/host_layout.h"
#include "worker/exec/strided_copy.h"

namespace switchtower::fuzz {
namespace {

constexpr int64_t kElementsMax = 4096;

struct Words {
  std::string_view input;
  uint64_t Next(size_t bytes = 1) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && !input.empty(); ++i) {
      value |= uint64_t{static_cast<uint8_t>(input[0])} << (8 * i);
      input.remove_prefix(1);
    }
    return value;
  }
};

Shape NextShape(Words& words) {
  Shape shape{static_cast<DType>(words.Next()), {}};
  for (uint64_t rank = words.Next() % 5; rank > 0; --rank) {
    shape.dims.push_back(static_cast<int64_t>(words.Next()) % 20);
  }
  return shape;
}

std::string NextBytes(Words& words, int64_t count) {
  std::string bytes(static_cast<size_t>(count), 'x');
  std::copy_n(words.input.begin(), std::min(words.input.size(), bytes.size()), bytes.begin());
  return bytes;
}

void CheckPacking(const Shape& shape, std::string dense) {
  const int64_t count = shape.elements();
  NormalizeElements(shape.dtype, dense.data(), count);
  std::string packed(static_cast<size_t>(PackedBytes(shape.dtype, count)), '\0'), again = dense;
  PackElements(shape.dtype, dense.data(), count, packed.data());
  UnpackElements(shape.dtype, packed.data(), count, again.data());
  CHECK(again == dense);
  CHECK(static_cast<int64_t>(packed.size()) == switchtower::PackedBytes(shape));
}

void CheckStrides(const Shape& shape, const std::vector<int64_t>& strides, const std::string& dense) {
  const auto client = StridedBytes(shape, strides);
  const auto bytes = StridedRegionBytes(shape, strides);
  if (!bytes.ok()) {
    CHECK(!client.ok() || *client / kSpreadMax > shape.host_bytes());
    return;
  }
  if (*bytes == 0) return;
  std::string region(static_cast<size_t>(*bytes), '\0');
  SpreadStrided(dense.data(), shape, strides, region.data());
  if (!client.ok()) return;
  CHECK(*client == *bytes);
  const auto expected = FromDense(shape, strides, dense);
  CHECK(!expected.ok() || *expected == region);  // the fake takes fewer
  std::string back(dense.size(), '\0');
  CopyElements(shape, region.data(), strides, back.data(), Layout::Default(shape.rank()).ByteStrides(shape));
  if (AreDense(shape, strides)) CHECK(back == dense);
}

void Run(std::string_view input) {
  Words words{input};
  const Shape shape = NextShape(words);
  if (!ValidateShape(shape).ok() || shape.elements() > kElementsMax || HostBytes(shape.dtype) == 0) return;
  std::vector<int64_t> strides;
  for (int d = 0; d < shape.rank(); ++d) {
    // Mostly small ones; some of all 64 bits.
    const uint64_t word = words.Next();
    strides.push_back(word == 255 ? static_cast<int64_t>(words.Next(8)) : static_cast<int64_t>(word % 64));
  }
  Box from, to;
  for (int d = 0; d < shape.rank(); ++d) {
    from.start.push_back(static_cast<int64_t>(words.Next() % 32) - 1);
    to.start.push_back(static_cast<int64_t>(words.Next() % 32) - 1);
    from.size.push_back(static_cast<int64_t>(words.Next() % 32) - 1);
  }
  to.size = from.size;
  const std::string dense = NextBytes(words, shape.host_bytes());
  if (IsSubByte(shape.dtype)) CheckPacking(shape, dense);
  CheckStrides(shape, strides, dense);
  if (!CheckBoxInside(from, shape).ok() || !CheckBoxInside(to, shape).ok()) return;
  std::string other(dense.size(), '\0');
  CopyBox(dense.data(), shape.dims, from, other.data(), shape.dims, to, HostBytes(shape.dtype));
  CHECK(CutBox(shape, to, other) == CutBox(shape, from, dense));
}

}  // namespace
}  // namespace switchtower::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  switchtower::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
