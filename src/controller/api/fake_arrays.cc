#include "controller/api/fake_arrays.h"

#include <cstring>
#include <functional>

#include <fmt/format.h>

namespace switchtower {
namespace {

// Visits the elements of an array of `dims` in row-major order with their offset under `strides`.
void ForEachOffset(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                   const std::function<void(int64_t)>& visit) {
  for (int64_t dim : dims) {
    if (dim == 0) return;
  }
  std::vector<int64_t> index(dims.size(), 0);
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t d = dims.size();
    while (d-- > 0) {
      if (dims[d] == 1) continue;  // a stride that takes no step may be anything
      offset += strides[d];
      if (++index[d] < dims[d]) break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

absl::StatusOr<int64_t> RegionBytes(const Shape& shape, const std::vector<int64_t>& strides) {
  if (static_cast<int>(strides.size()) != shape.rank()) {
    return absl::InvalidArgumentError("as many byte strides as dimensions are needed");
  }
  if (shape.elements() == 0) return 0;
  int64_t bytes = HostBytes(shape.dtype);
  for (int d = 0; d < shape.rank(); ++d) {
    int64_t extent = 0;
    if (shape.dims[d] == 1) continue;
    if (strides[d] < 0 || __builtin_mul_overflow(strides[d], shape.dims[d] - 1, &extent) ||
        __builtin_add_overflow(bytes, extent, &bytes) || bytes / 4 - 1024 > shape.host_bytes()) {
      return absl::InvalidArgumentError(fmt::format("byte stride {} can't be used", strides[d]));
    }
  }
  return bytes;
}

std::vector<int64_t> DenseStrides(const Shape& shape) { return Layout::Default(shape.rank()).ByteStrides(shape); }

int64_t BoxOffset(const Box& box, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += box.start[d] * strides[d];
  return offset;
}

}  // namespace

FakeArray PendingArray(const ArraySpec& spec) {
  FakeArray array;
  array.spec = spec;
  for (int i = 0; i < spec.sharding.num_shards(); ++i) array.shards.push_back(std::make_shared<FakeShard>());
  return array;
}

void FakeShard::Fill(absl::StatusOr<std::string> value) {
  std::vector<Callback<const absl::StatusOr<std::string>&>> waiters;
  {
    MutexLock lock(mutex_);
    if (filled_) return;
    value_ = std::move(value);
    filled_ = true;
    waiters.swap(waiters_);
  }
  for (auto& waiter : waiters) waiter(value_);
}

void FakeShard::Wait(Callback<const absl::StatusOr<std::string>&> done) {
  {
    MutexLock lock(mutex_);
    if (!filled_) {
      waiters_.push_back(std::move(done));
      return;
    }
  }
  done(value_);
}

absl::StatusOr<std::string> ToDense(const Shape& shape, const std::optional<std::vector<int64_t>>& strides,
                                    const std::string& region) {
  if (shape.dtype == DType::kString) return region;
  int64_t expected = shape.host_bytes();
  if (strides.has_value()) {
    auto bytes = RegionBytes(shape, *strides);
    if (!bytes.ok()) return bytes.status();
    expected = *bytes;
  }
  if (static_cast<int64_t>(region.size()) != expected) {
    return absl::InvalidArgumentError(
        fmt::format("{} needs {} host bytes, got {}", shape.ToString(), expected, region.size()));
  }
  if (!strides.has_value()) return region;
  const int64_t item = HostBytes(shape.dtype);
  std::string dense;
  dense.reserve(shape.host_bytes());
  ForEachOffset(shape.dims, *strides, [&](int64_t offset) { dense.append(region, offset, item); });
  return dense;
}

absl::StatusOr<std::string> FromDense(const Shape& shape, const std::optional<std::vector<int64_t>>& strides,
                                      const std::string& dense) {
  if (!strides.has_value() || shape.dtype == DType::kString) return dense;
  auto bytes = RegionBytes(shape, *strides);
  if (!bytes.ok()) return bytes.status();
  const int64_t item = HostBytes(shape.dtype);
  std::string region(*bytes, '\0');
  int64_t from = 0;
  ForEachOffset(shape.dims, *strides, [&](int64_t offset) {
    std::memcpy(region.data() + offset, dense.data() + from, item);
    from += item;
  });
  return region;
}

std::string CutBox(const Shape& shape, const Box& box, const std::string& whole) {
  const std::vector<int64_t> strides = DenseStrides(shape);
  const int64_t base = BoxOffset(box, strides);
  const int64_t item = HostBytes(shape.dtype);
  std::string part;
  ForEachOffset(box.size, strides, [&](int64_t offset) { part.append(whole, base + offset, item); });
  return part;
}

void PasteBox(const Shape& shape, const Box& box, const std::string& part, std::string* whole) {
  const std::vector<int64_t> strides = DenseStrides(shape);
  const int64_t base = BoxOffset(box, strides);
  const int64_t item = HostBytes(shape.dtype);
  int64_t from = 0;
  ForEachOffset(box.size, strides, [&](int64_t offset) {
    std::memcpy(whole->data() + base + offset, part.data() + from, item);
    from += item;
  });
}

void WaitForAll(std::vector<std::shared_ptr<FakeShard>> shards, Callback<absl::Status> done) {
  if (shards.empty()) {
    done(absl::OkStatus());
    return;
  }
  struct State {
    Mutex mutex;
    size_t left GUARDED_BY(mutex) = 0;
    std::vector<absl::Status> statuses GUARDED_BY(mutex);
    Callback<absl::Status> done;
  };
  auto state = std::make_shared<State>();
  state->left = shards.size();
  state->statuses.resize(shards.size());
  state->done = std::move(done);
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i]->Wait([state, i](const absl::StatusOr<std::string>& value) {
      absl::Status first;
      {
        MutexLock lock(state->mutex);
        state->statuses[i] = value.status();
        if (--state->left > 0) return;
        for (const absl::Status& status : state->statuses) first.Update(status);
      }
      state->done(first);
    });
  }
}

}  // namespace switchtower
