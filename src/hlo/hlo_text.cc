#include "hlo/hlo_text.h"

#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "hlo/hlo_text_attributes.h"
#include "hlo/literal_text.h"
#include "hlo/source_location.h"

namespace switchtower {
namespace {

template <typename List>
std::string Index(const List& list) {
  return absl::StrCat("{", absl::StrJoin(list, ", "), "}");
}

std::string AliasText(const xla::HloInputOutputAliasProto& alias) {
  std::vector<std::string> parts;
  for (const auto& entry : alias.entries()) {
    parts.push_back(absl::StrCat(Index(entry.output_shape_index()), ": (", entry.parameter_number(), ", ",
                                 Index(entry.parameter_shape_index()), ", ",
                                 entry.kind() == xla::MUST_ALIAS ? "must-alias" : "may-alias", ")"));
  }
  return absl::StrCat("{ ", absl::StrJoin(parts, ", "), " }");
}

class Printer {
 public:
  explicit Printer(const xla::HloModuleProto& module) : module_(module) {
    for (const auto& computation : module.computations()) names_[computation.id()] = &computation.name();
  }

  std::string Print() {
    PrintHeader();
    for (const auto& computation : module_.computations()) PrintComputation(computation);
    return std::move(out_);
  }

 private:
  void PrintHeader() {
    absl::StrAppend(&out_, "HloModule ", module_.name());
    if (module_.has_schedule()) absl::StrAppend(&out_, ", is_scheduled=true");
    if (module_.input_output_alias().entries_size() > 0) {
      absl::StrAppend(&out_, ", input_output_alias=", AliasText(module_.input_output_alias()));
    }
    absl::StrAppend(&out_, ", entry_computation_layout={", SignatureText(), "}");
    const int partitions = module_.device_assignment().computation_count();
    if (partitions > 1) absl::StrAppend(&out_, ", num_partitions=", partitions);
    out_ += "\n\n";
  }

  std::string SignatureText() const {
    std::vector<std::string> parameters;
    const xla::ProgramShapeProto& program = module_.host_program_shape();
    for (const auto& shape : program.parameters()) parameters.push_back(ShapeText(shape, true));
    return absl::StrCat("(", absl::StrJoin(parameters, ", "), ")->", ShapeText(program.result(), true));
  }

  void PrintComputation(const xla::HloComputationProto& computation) {
    instruction_names_.clear();
    std::map<int64_t, std::string> parameters;
    for (const auto& instruction : computation.instructions()) {
      instruction_names_[instruction.id()] = &instruction.name();
      if (instruction.opcode() == "parameter") {
        parameters[instruction.parameter_number()] =
            absl::StrCat(instruction.name(), ": ", ShapeText(instruction.shape(), false));
      }
    }
    std::vector<std::string> texts;
    for (const auto& [number, text] : parameters) texts.push_back(text);
    if (computation.id() == module_.entry_computation_id()) out_ += "ENTRY ";
    absl::StrAppend(&out_, "%", computation.name(), " (", absl::StrJoin(texts, ", "), ") -> ",
                    ShapeText(computation.program_shape().result(), false), " {\n");
    for (const xla::HloInstructionProto* instruction : InPrintOrder(computation)) {
      PrintInstruction(*instruction, instruction->id() == computation.root_id());
    }
    out_ += "}\n\n";
  }

  // The order of execution, if the module has one for this computation.
  std::vector<const xla::HloInstructionProto*> InPrintOrder(const xla::HloComputationProto& computation) const {
    std::vector<const xla::HloInstructionProto*> stored, scheduled;
    absl::flat_hash_map<int64_t, const xla::HloInstructionProto*> by_id;
    for (const auto& instruction : computation.instructions()) {
      stored.push_back(&instruction);
      by_id[instruction.id()] = &instruction;
    }
    const auto& sequences = module_.schedule().sequences();
    const auto sequence = sequences.find(computation.id());
    if (sequence == sequences.end()) return stored;
    for (int64_t id : sequence->second.instruction_ids()) {
      const auto it = by_id.find(id);
      if (it == by_id.end()) return stored;
      scheduled.push_back(it->second);
    }
    return scheduled.size() == stored.size() ? scheduled : stored;
  }

  void PrintInstruction(const xla::HloInstructionProto& instruction, bool is_root) {
    absl::StrAppend(&out_, is_root ? "  ROOT %" : "  %", instruction.name(), " = ",
                    ShapeText(instruction.shape(), true), " ", instruction.opcode(), "(", OperandsText(instruction),
                    ")");
    absl::StrAppend(&out_, AttributesText(instruction, [this](int64_t id) {
      auto it = names_.find(id);
      return it == names_.end() ? std::string("?") : absl::StrCat("%", *it->second);
    }));
    if (instruction.has_sharding()) absl::StrAppend(&out_, ", sharding=", ShardingText(instruction.sharding()));
    PrintFrontendAttributes(instruction.frontend_attributes());
    PrintMetadata(instruction.metadata());
    PrintBackendConfig(instruction.backend_config());
    out_ += "\n";
  }

  // JSON and dictionaries stand as they are, anything else in quotes.
  void PrintBackendConfig(const std::string& config) {
    if (config.empty()) return;
    const bool is_map = config.front() == '{' && config.find('\n') == std::string::npos;
    absl::StrAppend(&out_, ", backend_config=", is_map ? config : absl::StrCat("\"", absl::CEscape(config), "\""));
  }

  std::string OperandsText(const xla::HloInstructionProto& instruction) const {
    if (instruction.opcode() == "parameter") return absl::StrCat(instruction.parameter_number());
    if (instruction.opcode() == "constant") return LiteralText(instruction.literal());
    std::vector<std::string> operands;
    for (int64_t id : instruction.operand_ids()) {
      auto it = instruction_names_.find(id);
      operands.push_back(it == instruction_names_.end() ? "?" : absl::StrCat("%", *it->second));
    }
    return absl::StrJoin(operands, ", ");
  }

  void PrintFrontendAttributes(const xla::FrontendAttributes& attributes) {
    if (attributes.map().empty()) return;
    // A proto map has no order of its own.
    const std::map<std::string, std::string> sorted(attributes.map().begin(), attributes.map().end());
    std::vector<std::string> parts;
    for (const auto& [name, value] : sorted) parts.push_back(absl::StrCat(name, "=\"", absl::CEscape(value), "\""));
    absl::StrAppend(&out_, ", frontend_attributes={", absl::StrJoin(parts, ","), "}");
  }

  void PrintMetadata(const xla::OpMetadata& metadata) {
    std::vector<std::string> parts;
    if (!metadata.op_type().empty())
      parts.push_back(absl::StrCat("op_type=\"", absl::CEscape(metadata.op_type()), "\""));
    if (!metadata.op_name().empty())
      parts.push_back(absl::StrCat("op_name=\"", absl::CEscape(metadata.op_name()), "\""));
    const std::string source = SourceOf(module_, metadata);
    if (const size_t colon = source.rfind(':'); colon != std::string::npos) {
      parts.push_back(absl::StrCat("source_file=\"", absl::CEscape(source.substr(0, colon)), "\""));
      parts.push_back(absl::StrCat("source_line=", source.substr(colon + 1)));
    }
    if (!parts.empty()) absl::StrAppend(&out_, ", metadata={", absl::StrJoin(parts, " "), "}");
  }

  const xla::HloModuleProto& module_;
  absl::flat_hash_map<int64_t, const std::string*> names_;
  absl::flat_hash_map<int64_t, const std::string*> instruction_names_;  // of the computation being printed
  std::string out_;
};

}  // namespace

std::string ModuleText(const xla::HloModuleProto& module) { return Printer(module).Print(); }

}  // namespace switchtower
