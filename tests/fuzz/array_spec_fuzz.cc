// What an array is, in a client's words: element type, shape, sharding in its serialised forms, device lists, layout as
// text and as message, byte strides.
//
// What parses is usable: each shard has a shape, lies inside of the array, and the whole comes back from its own
// serialised form.
#include <string>

#include "base/check.h"
#include "fuzz_inputs.pb.h"
#include "tests/fuzz/proto_target.h"
#include "types/sharding.h"
#include "wire/ifrt/array_spec.h"
#include "wire/ifrt/shape.h"

namespace switchtower::fuzz {
namespace {

void CheckShards(const Shape& shape, const Sharding& sharding) {
  for (int i = 0; i < sharding.num_shards(); ++i) {
    const auto shard = ShardShape(sharding, shape, i);
    CHECK(shard.ok());
    CHECK(ValidateShape(*shard).ok());
    if (sharding.kind == Sharding::Kind::kConcrete) continue;
    const auto box = ShardBox(sharding, shape, i);
    CHECK(box.ok());
    for (int d = 0; d < shape.rank(); ++d) {
      CHECK(box->start[d] >= 0 && box->size[d] >= 0 && box->start[d] <= shape.dims[d]);
      CHECK(box->size[d] <= shape.dims[d] - box->start[d]);
    }
  }
}

void CheckLayout(const Shape& shape, const Layout& layout) {
  const auto again = ParseLayoutText(layout.ToString(), shape.rank());
  CHECK(again.ok() && *again == layout);
  if (shape.elements() == 0 || HostBytes(shape.dtype) == 0) return;
  const auto bytes = StridedBytes(shape, layout.ByteStrides(shape));
  CHECK(bytes.ok() && *bytes == shape.host_bytes());
}

void Run(const ArraySpecInput& input) {
  DeviceSet known;
  for (uint64_t id = 0; id < 8; ++id) known.insert(DeviceId{id});
  const auto shape = FromProto(input.spec().dtype(), input.spec().shape());
  if (!shape.ok()) return;
  StridedBytes(*shape, {input.byte_strides().begin(), input.byte_strides().end()}).IgnoreError();
  if (const auto layout = FromProto(input.layout(), shape->rank()); layout.ok()) CheckLayout(*shape, *layout);
  const auto spec = FromProto(input.spec(), known);
  if (!spec.ok()) return;
  CHECK(!spec->shape.ToString().empty());
  CheckShards(spec->shape, spec->sharding);
  if (spec->layout.has_value()) CheckLayout(spec->shape, *spec->layout);
  xla::ifrt::ArraySpecProto written;
  ToProto(spec->shape.dtype, written.mutable_dtype());
  ToProto(spec->shape.dims, written.mutable_shape());
  CHECK(ToProto(spec->sharding, spec->shape, written.mutable_sharding()).ok());
  const auto again = FromProto(written, known);
  CHECK(again.ok());
  CHECK(again->shape == spec->shape);
  for (int i = 0; i < spec->sharding.num_shards(); ++i) {
    CHECK(*ShardShape(spec->sharding, spec->shape, i) == *ShardShape(again->sharding, again->shape, i));
  }
}

}  // namespace
}  // namespace switchtower::fuzz

PROTO_FUZZ_TARGET(switchtower::fuzz::ArraySpecInput, switchtower::fuzz::Run)
