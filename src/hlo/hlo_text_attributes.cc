#include "hlo/hlo_text_attributes.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace switchtower {
namespace {

template <typename List>
std::string Braced(const List& list) {
  return absl::StrCat("{", absl::StrJoin(list, ","), "}");
}

std::string TypeName(xla::PrimitiveType type) {
  if (type == xla::OPAQUE_TYPE) return "opaque";
  return absl::AsciiStrToLower(xla::PrimitiveType_Name(type));
}

std::string AxisText(const xla::MeshProto& mesh, const xla::AxisRefProto& ref) {
  const int64_t axis = ref.mesh_axis_index();
  std::string text = axis >= 0 && axis < mesh.axes_size() ? absl::StrCat("'", mesh.axes(axis).name(), "'") : "?";
  if (ref.has_sub_axis_info()) {
    absl::StrAppend(&text, ":(", ref.sub_axis_info().pre_size(), ")", ref.sub_axis_info().size());
  }
  return text;
}

template <typename Dims, typename Perm>
std::string IotaText(const Dims& dims, const Perm& perm) {
  std::string text = absl::StrCat("<=[", absl::StrJoin(dims, ","), "]");
  if (perm.size() > 1) absl::StrAppend(&text, "T(", absl::StrJoin(perm, ","), ")");
  return text;
}

std::string GroupsText(const xla::HloInstructionProto& instruction) {
  if (instruction.has_iota_collective_device_list()) {
    const auto& list = instruction.iota_collective_device_list();
    return absl::StrCat("[", list.num_replica_groups(), ",", list.num_devices_per_group(), "]",
                        IotaText(list.iota_reshape_dims(), list.iota_transpose_perm()));
  }
  if (instruction.has_mesh_axes_replica_group_list()) {
    const auto& list = instruction.mesh_axes_replica_group_list();
    std::vector<std::string> axes, named;
    for (const auto& axis : list.mesh().axes()) axes.push_back(absl::StrCat("'", axis.name(), "'=", axis.size()));
    for (const auto& axis : list.axes()) named.push_back(AxisText(list.mesh(), axis));
    return absl::StrCat("mesh[", absl::StrJoin(axes, ","), "] {", absl::StrJoin(named, ","), "}");
  }
  const auto& groups = instruction.replica_groups_size() > 0 ? instruction.replica_groups()
                                                             : instruction.collective_device_list().replica_groups();
  std::vector<std::string> texts;
  for (const auto& group : groups) texts.push_back(Braced(group.replica_ids()));
  return Braced(texts);
}

std::string WindowText(const xla::Window& window) {
  bool strides = false, pads = false, lhs_dilates = false, rhs_dilates = false;
  for (const auto& d : window.dimensions()) {
    strides |= d.stride() != 1;
    pads |= d.padding_low() != 0 || d.padding_high() != 0;
    lhs_dilates |= d.base_dilation() != 1;
    rhs_dilates |= d.window_dilation() != 1;
  }
  const auto joined = [&](const char* name, const std::function<std::string(const xla::WindowDimension&)>& one) {
    std::vector<std::string> parts;
    for (const auto& d : window.dimensions()) parts.push_back(one(d));
    return absl::StrCat(name, absl::StrJoin(parts, "x"));
  };
  std::string text = joined("size=", [](const auto& d) { return absl::StrCat(d.size()); });
  if (strides) absl::StrAppend(&text, joined(" stride=", [](const auto& d) { return absl::StrCat(d.stride()); }));
  if (pads) {
    absl::StrAppend(
        &text, joined(" pad=", [](const auto& d) { return absl::StrCat(d.padding_low(), "_", d.padding_high()); }));
  }
  if (lhs_dilates) {
    absl::StrAppend(&text, joined(" lhs_dilate=", [](const auto& d) { return absl::StrCat(d.base_dilation()); }));
  }
  if (rhs_dilates) {
    absl::StrAppend(&text, joined(" rhs_dilate=", [](const auto& d) { return absl::StrCat(d.window_dilation()); }));
  }
  return absl::StrCat("{", text, "}");
}

// "b01f": the letter at each dimension's place.
template <typename List>
std::string Labels(char first, int64_t first_at, char second, int64_t second_at, const List& spatial) {
  std::string labels(spatial.size() + 2, '?');
  const auto put = [&](int64_t at, char label) {
    if (at >= 0 && at < static_cast<int64_t>(labels.size())) labels[at] = label;
  };
  put(first_at, first);
  put(second_at, second);
  for (int i = 0; i < spatial.size() && i < 10; ++i) put(spatial.Get(i), static_cast<char>('0' + i));
  return labels;
}

std::string ConvolutionText(const xla::ConvolutionDimensionNumbers& n) {
  return absl::StrCat(
      Labels('b', n.input_batch_dimension(), 'f', n.input_feature_dimension(), n.input_spatial_dimensions()), "_",
      Labels('i', n.kernel_input_feature_dimension(), 'o', n.kernel_output_feature_dimension(),
             n.kernel_spatial_dimensions()),
      "->", Labels('b', n.output_batch_dimension(), 'f', n.output_feature_dimension(), n.output_spatial_dimensions()));
}

std::string SliceText(const xla::HloInstructionProto& instruction) {
  std::vector<std::string> parts;
  for (const auto& d : instruction.slice_dimensions()) {
    parts.push_back(
        absl::StrCat("[", d.start(), ":", d.limit(), d.stride() > 1 ? absl::StrCat(":", d.stride()) : "", "]"));
  }
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

std::string PaddingText(const xla::PaddingConfig& padding) {
  std::vector<std::string> parts;
  for (const auto& d : padding.dimensions()) {
    parts.push_back(absl::StrCat(d.edge_padding_low(), "_", d.edge_padding_high(),
                                 d.interior_padding() != 0 ? absl::StrCat("_", d.interior_padding()) : ""));
  }
  return absl::StrJoin(parts, "x");
}

// Collects ", name=value".
class Attributes {
 public:
  void Add(const char* name, const std::string& value) { absl::StrAppend(&text_, ", ", name, "=", value); }
  template <typename List>
  void AddList(const char* name, const List& list) {
    if (!list.empty()) Add(name, Braced(list));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddDot(const xla::DotDimensionNumbers& dot, Attributes& out) {
  out.AddList("lhs_batch_dims", dot.lhs_batch_dimensions());
  out.AddList("lhs_contracting_dims", dot.lhs_contracting_dimensions());
  out.AddList("rhs_batch_dims", dot.rhs_batch_dimensions());
  out.AddList("rhs_contracting_dims", dot.rhs_contracting_dimensions());
}

void AddGather(const xla::HloInstructionProto& instruction, Attributes& out) {
  const auto& gather = instruction.gather_dimension_numbers();
  out.Add("offset_dims", Braced(gather.offset_dims()));
  out.Add("collapsed_slice_dims", Braced(gather.collapsed_slice_dims()));
  out.Add("start_index_map", Braced(gather.start_index_map()));
  out.AddList("operand_batching_dims", gather.operand_batching_dims());
  out.AddList("start_indices_batching_dims", gather.start_indices_batching_dims());
  out.Add("index_vector_dim", absl::StrCat(gather.index_vector_dim()));
  out.Add("slice_sizes", Braced(instruction.gather_slice_sizes()));
}

void AddScatter(const xla::ScatterDimensionNumbers& scatter, Attributes& out) {
  out.Add("update_window_dims", Braced(scatter.update_window_dims()));
  out.Add("inserted_window_dims", Braced(scatter.inserted_window_dims()));
  out.Add("scatter_dims_to_operand_dims", Braced(scatter.scatter_dims_to_operand_dims()));
  out.AddList("input_batching_dims", scatter.input_batching_dims());
  out.AddList("scatter_indices_batching_dims", scatter.scatter_indices_batching_dims());
  out.Add("index_vector_dim", absl::StrCat(scatter.index_vector_dim()));
}

bool HasGroups(const std::string& opcode) {
  return opcode == "all-reduce" || opcode == "all-gather" || opcode == "reduce-scatter" || opcode == "all-to-all" ||
         opcode == "collective-broadcast" || opcode == "ragged-all-to-all";
}

void AddCollective(const xla::HloInstructionProto& instruction, Attributes& out) {
  if (instruction.channel_id() > 0) out.Add("channel_id", absl::StrCat(instruction.channel_id()));
  if (HasGroups(instruction.opcode())) out.Add("replica_groups", GroupsText(instruction));
  if (instruction.source_target_pairs_size() > 0) {
    std::vector<std::string> pairs;
    for (const auto& pair : instruction.source_target_pairs()) {
      pairs.push_back(absl::StrCat("{", pair.source(), ",", pair.target(), "}"));
    }
    out.Add("source_target_pairs", Braced(pairs));
  }
}

void AddCalled(const xla::HloInstructionProto& instruction, const std::function<std::string(int64_t)>& name_of,
               Attributes& out) {
  std::vector<std::string> names;
  for (int64_t id : instruction.called_computation_ids()) names.push_back(name_of(id));
  if (names.empty()) return;
  const std::string& opcode = instruction.opcode();
  if (opcode == "while" && names.size() == 2) {
    out.Add("condition", names[1]);
    out.Add("body", names[0]);
  } else if (opcode == "conditional") {
    out.Add("branch_computations", absl::StrCat("{", absl::StrJoin(names, ", "), "}"));
  } else if (opcode == "fusion") {
    out.Add("calls", names[0]);
  } else if (opcode == "custom-call") {
    out.Add("called_computations", absl::StrCat("{", absl::StrJoin(names, ", "), "}"));
  } else if (opcode == "select-and-scatter" && names.size() == 2) {
    out.Add("select", names[0]);
    out.Add("scatter", names[1]);
  } else {
    out.Add("to_apply", names[0]);
  }
}

}  // namespace

std::string ShapeText(const xla::ShapeProto& shape, bool with_layout) {
  if (shape.element_type() == xla::TUPLE) {
    std::vector<std::string> parts;
    for (const auto& part : shape.tuple_shapes()) parts.push_back(ShapeText(part, with_layout));
    return absl::StrCat("(", absl::StrJoin(parts, ", "), ")");
  }
  std::string text = absl::StrCat(TypeName(shape.element_type()), "[", absl::StrJoin(shape.dimensions(), ","), "]");
  if (!with_layout || !shape.has_layout()) return text;
  std::string rest;
  const xla::LayoutProto& layout = shape.layout();
  for (const auto& tile : layout.tiles()) absl::StrAppend(&rest, "T(", absl::StrJoin(tile.dimensions(), ","), ")");
  if (layout.element_size_in_bits() != 0) absl::StrAppend(&rest, "E(", layout.element_size_in_bits(), ")");
  if (layout.memory_space() != 0) absl::StrAppend(&rest, "S(", layout.memory_space(), ")");
  if (layout.minor_to_major().empty() && rest.empty()) return text;
  absl::StrAppend(&text, "{", absl::StrJoin(layout.minor_to_major(), ","), rest.empty() ? "" : ":", rest, "}");
  return text;
}

std::string ShardingText(const xla::OpSharding& sharding) {
  switch (sharding.type()) {
    case xla::OpSharding::REPLICATED:
      return "{replicated}";
    case xla::OpSharding::MANUAL:
      return "{manual}";
    case xla::OpSharding::UNKNOWN:
      return "{unknown}";
    case xla::OpSharding::UNREDUCED:
      return "{unreduced}";
    case xla::OpSharding::MAXIMAL:
      return absl::StrCat("{maximal device=", absl::StrJoin(sharding.tile_assignment_devices(), ","), "}");
    case xla::OpSharding::TUPLE: {
      std::vector<std::string> parts;
      for (const auto& part : sharding.tuple_shardings()) parts.push_back(ShardingText(part));
      return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
    }
    default:
      break;
  }
  std::string text = absl::StrCat("devices=[", absl::StrJoin(sharding.tile_assignment_dimensions(), ","), "]");
  if (sharding.iota_reshape_dims_size() > 0) {
    absl::StrAppend(&text, IotaText(sharding.iota_reshape_dims(), sharding.iota_transpose_perm()));
  } else {
    absl::StrAppend(&text, absl::StrJoin(sharding.tile_assignment_devices(), ","));
  }
  if (sharding.replicate_on_last_tile_dim()) absl::StrAppend(&text, " last_tile_dim_replicate");
  return absl::StrCat("{", text, "}");
}

std::string AttributesText(const xla::HloInstructionProto& instruction,
                           const std::function<std::string(int64_t)>& name_of) {
  Attributes out;
  const std::string& opcode = instruction.opcode();
  AddCollective(instruction, out);
  if (opcode == "iota") {
    out.Add("iota_dimension", absl::StrJoin(instruction.dimensions(), ","));
  } else if (opcode == "broadcast" || instruction.dimensions_size() > 0) {
    out.Add("dimensions", Braced(instruction.dimensions()));
  }
  if (instruction.use_global_device_ids()) out.Add("use_global_device_ids", "true");
  if (opcode == "get-tuple-element") out.Add("index", absl::StrCat(instruction.tuple_index()));
  if (instruction.slice_dimensions_size() > 0) out.Add("slice", SliceText(instruction));
  out.AddList("dynamic_slice_sizes", instruction.dynamic_slice_sizes());
  if (instruction.has_padding_config()) out.Add("padding", PaddingText(instruction.padding_config()));
  if (instruction.has_window() && instruction.window().dimensions_size() > 0) {
    out.Add("window", WindowText(instruction.window()));
  }
  if (instruction.has_convolution_dimension_numbers()) {
    out.Add("dim_labels", ConvolutionText(instruction.convolution_dimension_numbers()));
  }
  if (instruction.has_dot_dimension_numbers()) AddDot(instruction.dot_dimension_numbers(), out);
  if (instruction.has_gather_dimension_numbers()) AddGather(instruction, out);
  if (instruction.has_scatter_dimension_numbers()) AddScatter(instruction.scatter_dimension_numbers(), out);
  if (instruction.indices_are_sorted()) out.Add("indices_are_sorted", "true");
  if (instruction.unique_indices()) out.Add("unique_indices", "true");
  if (!instruction.comparison_direction().empty()) out.Add("direction", instruction.comparison_direction());
  if (instruction.is_stable()) out.Add("is_stable", "true");
  if (!instruction.fusion_kind().empty()) out.Add("kind", instruction.fusion_kind());
  if (opcode == "custom-call") {
    out.Add("custom_call_target", absl::StrCat("\"", instruction.custom_call_target(), "\""));
  }
  AddCalled(instruction, name_of, out);
  return out.Take();
}

}  // namespace switchtower
