#include "hlo/device_order.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace switchtower {
namespace {

constexpr size_t kMaxDimensions = 64;

absl::Status Bad(std::string what) {
  return absl::InvalidArgumentError(absl::StrCat("a device order of the program is wrong: ", what));
}

absl::StatusOr<int64_t> BoundedProduct(absl::Span<const int64_t> dims, int64_t limit) {
  if (dims.size() > kMaxDimensions) return Bad("more than 64 dimensions");
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 1) return Bad("a dimension below 1");
    if (dim > limit / product) return Bad(absl::StrCat("more than ", limit, " devices"));
    product *= dim;
  }
  return product;
}

// An axis cut at the borders of the parts that are named: cuts[i + 1] / cuts[i] are the sizes, major to minor.
struct SplitAxis {
  std::vector<int64_t> cuts;
  size_t first_piece = 0;  // index of its first piece among the pieces of all axes
};

absl::Status CheckRef(const xla::MeshProto& mesh, const xla::AxisRefProto& ref) {
  const int64_t axis = ref.mesh_axis_index();
  if (axis < 0 || axis >= mesh.axes_size()) return Bad("an axis that the mesh doesn't have");
  if (mesh.axes(axis).size() < 1) return Bad("an axis of no devices");
  if (!ref.has_sub_axis_info()) return absl::OkStatus();
  const int64_t pre = ref.sub_axis_info().pre_size();
  const int64_t size = ref.sub_axis_info().size();
  const int64_t whole = mesh.axes(axis).size();
  if (pre < 1 || size < 1 || pre > whole || size > whole / pre || whole % (pre * size) != 0) {
    return Bad("a part of an axis that doesn't divide it");
  }
  return absl::OkStatus();
}

int64_t RefBegin(const xla::AxisRefProto& ref) { return ref.has_sub_axis_info() ? ref.sub_axis_info().pre_size() : 1; }

int64_t RefEnd(const xla::MeshProto& mesh, const xla::AxisRefProto& ref) {
  return ref.has_sub_axis_info() ? ref.sub_axis_info().pre_size() * ref.sub_axis_info().size()
                                 : mesh.axes(ref.mesh_axis_index()).size();
}

absl::StatusOr<std::vector<SplitAxis>> SplitAxes(const xla::MeshProto& mesh,
                                                 const std::vector<xla::AxisRefProto>& refs) {
  std::vector<SplitAxis> axes(mesh.axes_size());
  for (int i = 0; i < mesh.axes_size(); ++i) axes[i].cuts = {1, mesh.axes(i).size()};
  for (const xla::AxisRefProto& ref : refs) {
    axes[ref.mesh_axis_index()].cuts.push_back(RefBegin(ref));
    axes[ref.mesh_axis_index()].cuts.push_back(RefEnd(mesh, ref));
  }
  size_t pieces = 0;
  for (SplitAxis& axis : axes) {
    std::sort(axis.cuts.begin(), axis.cuts.end());
    axis.cuts.erase(std::unique(axis.cuts.begin(), axis.cuts.end()), axis.cuts.end());
    axis.first_piece = pieces;
    // An axis of size 1 has one cut and no piece.
    for (size_t i = 0; i + 1 < axis.cuts.size(); ++i, ++pieces) {
      if (axis.cuts[i + 1] % axis.cuts[i] != 0) return Bad("parts of an axis that don't fit each other");
    }
  }
  return axes;
}

absl::StatusOr<std::vector<int64_t>> MeshDevices(const xla::MeshProto& mesh, int64_t count, int64_t limit) {
  if (mesh.device_ids_size() > 0) {
    if (mesh.device_ids_size() != count) return Bad("a mesh whose device list has another size");
    return std::vector<int64_t>(mesh.device_ids().begin(), mesh.device_ids().end());
  }
  if (mesh.has_iota_transform()) {
    const auto& iota = mesh.iota_transform();
    ASSIGN_OR_RETURN(std::vector<int64_t> devices, TransposedIota(iota.reshape_dims(), iota.transpose_perm(), limit));
    if (static_cast<int64_t>(devices.size()) != count) return Bad("a mesh whose device order has another size");
    return devices;
  }
  std::vector<int64_t> devices(count);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> TransposedIota(absl::Span<const int64_t> dims, absl::Span<const int64_t> perm,
                                                    int64_t limit) {
  ASSIGN_OR_RETURN(const int64_t count, BoundedProduct(dims, limit));
  if (perm.size() != dims.size()) return Bad("a permutation of another rank");
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  std::vector<bool> seen(dims.size(), false);
  for (int64_t p : perm) {
    if (p < 0 || p >= static_cast<int64_t>(dims.size()) || seen[p]) return Bad("not a permutation");
    seen[p] = true;
  }
  std::vector<int64_t> order;
  order.reserve(count);
  std::vector<int64_t> index(dims.size(), 0);  // in transposed order
  int64_t at = 0;
  for (int64_t n = 0; n < count; ++n) {
    order.push_back(at);
    for (size_t i = perm.size(); i-- > 0;) {
      at += strides[perm[i]];
      if (++index[i] < dims[perm[i]]) break;
      at -= strides[perm[i]] * dims[perm[i]];
      index[i] = 0;
    }
  }
  return order;
}

absl::StatusOr<int64_t> AxisRefSize(const xla::MeshProto& mesh, const xla::AxisRefProto& ref) {
  RETURN_IF_ERROR(CheckRef(mesh, ref));
  return RefEnd(mesh, ref) / RefBegin(ref);
}

absl::StatusOr<MeshOrder> OrderMesh(const xla::MeshProto& mesh, const std::vector<xla::AxisRefProto>& refs,
                                    NamedAxes where, int64_t limit) {
  std::vector<int64_t> sizes;
  for (const auto& axis : mesh.axes()) sizes.push_back(axis.size());
  ASSIGN_OR_RETURN(const int64_t count, BoundedProduct(sizes, limit));
  if (refs.size() > kMaxDimensions) return Bad("more than 64 axes");
  for (const xla::AxisRefProto& ref : refs) RETURN_IF_ERROR(CheckRef(mesh, ref));
  ASSIGN_OR_RETURN(const std::vector<SplitAxis> axes, SplitAxes(mesh, refs));

  std::vector<int64_t> dims;
  for (const SplitAxis& axis : axes) {
    for (size_t i = 0; i + 1 < axis.cuts.size(); ++i) dims.push_back(axis.cuts[i + 1] / axis.cuts[i]);
  }
  std::vector<int64_t> named;
  std::vector<bool> is_named(dims.size(), false);
  MeshOrder order;
  for (const xla::AxisRefProto& ref : refs) {
    const SplitAxis& axis = axes[ref.mesh_axis_index()];
    for (size_t i = 0; i + 1 < axis.cuts.size(); ++i) {
      if (axis.cuts[i] < RefBegin(ref) || axis.cuts[i + 1] > RefEnd(mesh, ref)) continue;
      const size_t piece = axis.first_piece + i;
      if (is_named[piece]) return Bad("an axis that is named twice");
      is_named[piece] = true;
      named.push_back(static_cast<int64_t>(piece));
      order.named_size *= dims[piece];
    }
  }
  std::vector<int64_t> others;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!is_named[i]) others.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t>& perm = where == NamedAxes::kFirst ? named : others;
  const std::vector<int64_t>& tail = where == NamedAxes::kFirst ? others : named;
  perm.insert(perm.end(), tail.begin(), tail.end());

  ASSIGN_OR_RETURN(const std::vector<int64_t> devices, MeshDevices(mesh, count, limit));
  ASSIGN_OR_RETURN(const std::vector<int64_t> positions, TransposedIota(dims, perm, limit));
  order.devices.reserve(positions.size());
  for (int64_t position : positions) order.devices.push_back(devices[position]);
  return order;
}

}  // namespace switchtower
