#include "types/dtype.h"

namespace switchtower {
namespace {

struct Info {
  DType dtype;
  int bits;
  std::string_view name;
};

constexpr Info kInfos[] = {
    {DType::kPred, 8, "pred"},
    {DType::kS1, 1, "s1"},
    {DType::kS2, 2, "s2"},
    {DType::kS4, 4, "s4"},
    {DType::kS8, 8, "s8"},
    {DType::kS16, 16, "s16"},
    {DType::kS32, 32, "s32"},
    {DType::kS64, 64, "s64"},
    {DType::kU1, 1, "u1"},
    {DType::kU2, 2, "u2"},
    {DType::kU4, 4, "u4"},
    {DType::kU8, 8, "u8"},
    {DType::kU16, 16, "u16"},
    {DType::kU32, 32, "u32"},
    {DType::kU64, 64, "u64"},
    {DType::kF16, 16, "f16"},
    {DType::kF32, 32, "f32"},
    {DType::kF64, 64, "f64"},
    {DType::kBF16, 16, "bf16"},
    {DType::kC64, 64, "c64"},
    {DType::kC128, 128, "c128"},
    {DType::kF8E5M2, 8, "f8e5m2"},
    {DType::kF8E4M3FN, 8, "f8e4m3fn"},
    {DType::kF8E4M3B11FNUZ, 8, "f8e4m3b11fnuz"},
    {DType::kF8E5M2FNUZ, 8, "f8e5m2fnuz"},
    {DType::kF8E4M3FNUZ, 8, "f8e4m3fnuz"},
    {DType::kF8E4M3, 8, "f8e4m3"},
    {DType::kF8E3M4, 8, "f8e3m4"},
    {DType::kF8E8M0FNU, 8, "f8e8m0fnu"},
    {DType::kF4E2M1FN, 4, "f4e2m1fn"},
    {DType::kToken, 0, "token"},
    {DType::kOpaque, 0, "opaque"},
    {DType::kString, 0, "string"},
};

const Info* Find(DType dtype) {
  for (const Info& info : kInfos) {
    if (info.dtype == dtype) return &info;
  }
  return nullptr;
}

}  // namespace

bool IsKnown(DType dtype) { return Find(dtype) != nullptr; }

int BitWidth(DType dtype) {
  const Info* info = Find(dtype);
  return info == nullptr ? 0 : info->bits;
}

int64_t HostBytes(DType dtype) { return (BitWidth(dtype) + 7) / 8; }

std::string_view Name(DType dtype) {
  const Info* info = Find(dtype);
  return info == nullptr ? "invalid" : info->name;
}

}  // namespace switchtower
