#include "wire/worker/value_codec.h"

#include <map>
#include <string>

#include "absl/strings/cord.h"
#include "base/status_macros.h"

namespace switchtower::worker_wire {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("worker message: " + what); }

}  // namespace

void ToProto(const absl::Status& status, pb::Status* out) {
  if (status.ok()) return;
  out->set_code(static_cast<int32_t>(status.code()));
  out->set_message(std::string(status.message()));
  // A status hands them out in an order that depends on where it lies.
  std::map<std::string, std::string> sorted;
  status.ForEachPayload(
      [&](auto type_url, const absl::Cord& value) { sorted[std::string(type_url)] = std::string(value); });
  for (const auto& [type_url, value] : sorted) {
    pb::Status::Payload* payload = out->add_payloads();
    payload->set_type_url(type_url);
    payload->set_value(value);
  }
}

void ToProto(const LaunchId& id, pb::LaunchId* out) {
  out->set_epoch(id.epoch);
  out->set_number(id.number);
}

void ToProto(const PhysicalDevice& device, pb::Device* out) {
  out->set_worker(device.worker.value);
  out->set_ordinal(device.ordinal);
}

void ToProto(const Shape& shape, pb::Shape* out) {
  out->set_dtype(static_cast<int32_t>(shape.dtype));
  out->mutable_dims()->Add(shape.dims.begin(), shape.dims.end());
}

void ToProto(const Layout& layout, pb::Layout* out) {
  out->mutable_minor_to_major()->Add(layout.minor_to_major.begin(), layout.minor_to_major.end());
}

void ToProto(const std::vector<int64_t>& strides, pb::ByteStrides* out) {
  out->mutable_strides()->Add(strides.begin(), strides.end());
}

void ToProto(const Box& box, pb::Box* out) {
  out->mutable_start()->Add(box.start.begin(), box.start.end());
  out->mutable_size()->Add(box.size.begin(), box.size.end());
}

absl::Status FromProto(const pb::Status& in, absl::Status* out) {
  if (in.code() < 0 || in.code() > static_cast<int32_t>(absl::StatusCode::kUnauthenticated)) {
    return Bad("unknown status code " + std::to_string(in.code()));
  }
  *out = absl::Status(static_cast<absl::StatusCode>(in.code()), in.message());
  if (out->ok()) return absl::OkStatus();
  for (const pb::Status::Payload& payload : in.payloads()) {
    out->SetPayload(payload.type_url(), absl::Cord(payload.value()));
  }
  return absl::OkStatus();
}

absl::Status CauseFromProto(const pb::Status& in, absl::Status* out) {
  RETURN_IF_ERROR(FromProto(in, out));
  return out->ok() ? Bad("an error without a cause") : absl::OkStatus();
}

LaunchId FromProto(const pb::LaunchId& in) { return LaunchId{in.epoch(), in.number()}; }

absl::StatusOr<PhysicalDevice> FromProto(const pb::Device& in) {
  if (in.ordinal() < 0) return Bad("negative device ordinal");
  return PhysicalDevice{WorkerId{in.worker()}, in.ordinal()};
}

absl::StatusOr<Shape> FromProto(const pb::Shape& in) {
  Shape shape{static_cast<DType>(in.dtype()), {in.dims().begin(), in.dims().end()}};
  RETURN_IF_ERROR(ValidateShape(shape));
  return shape;
}

absl::StatusOr<Layout> FromProto(const pb::Layout& in, int rank) {
  Layout layout{{in.minor_to_major().begin(), in.minor_to_major().end()}};
  std::vector<bool> seen(rank, false);
  bool permutation = in.minor_to_major_size() == rank;
  for (int64_t dim : layout.minor_to_major) {
    if (!permutation || dim < 0 || dim >= rank || seen[dim]) {
      permutation = false;
      break;
    }
    seen[dim] = true;
  }
  if (!permutation) return Bad("layout is no permutation of " + std::to_string(rank) + " dimensions");
  return layout;
}

Box FromProto(const pb::Box& in) {
  return Box{{in.start().begin(), in.start().end()}, {in.size().begin(), in.size().end()}};
}

absl::Status CheckBox(const Box& box, const Shape& shape) {
  bool inside = static_cast<int>(box.start.size()) == shape.rank() && static_cast<int>(box.size.size()) == shape.rank();
  for (int d = 0; inside && d < shape.rank(); ++d) {
    // In this order nothing overflows: both are within [0, dim].
    inside = box.start[d] >= 0 && box.size[d] >= 0 && box.start[d] <= shape.dims[d] &&
             box.size[d] <= shape.dims[d] - box.start[d];
  }
  return inside ? absl::OkStatus() : Bad("box outside of " + shape.ToString());
}

}  // namespace switchtower::worker_wire
