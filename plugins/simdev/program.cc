#include "plugins/simdev/program.h"

#include <map>
#include <sstream>

namespace simdev {

using namespace switchtower::pjrt::abi;

namespace {

struct TypeInfo {
  PJRT_Buffer_Type type;
  int64_t bytes;
};

const std::map<std::string, TypeInfo>& Types() {
  static const auto* types = new std::map<std::string, TypeInfo>{
      {"pred", {PJRT_Buffer_Type_PRED, 1}}, {"s8", {PJRT_Buffer_Type_S8, 1}},     {"u8", {PJRT_Buffer_Type_U8, 1}},
      {"s16", {PJRT_Buffer_Type_S16, 2}},   {"u16", {PJRT_Buffer_Type_U16, 2}},   {"s32", {PJRT_Buffer_Type_S32, 4}},
      {"u32", {PJRT_Buffer_Type_U32, 4}},   {"s64", {PJRT_Buffer_Type_S64, 8}},   {"u64", {PJRT_Buffer_Type_U64, 8}},
      {"f16", {PJRT_Buffer_Type_F16, 2}},   {"bf16", {PJRT_Buffer_Type_BF16, 2}}, {"f32", {PJRT_Buffer_Type_F32, 4}},
      {"f64", {PJRT_Buffer_Type_F64, 8}},   {"c64", {PJRT_Buffer_Type_C64, 8}},   {"c128", {PJRT_Buffer_Type_C128, 16}},
  };
  return *types;
}

std::string ParseLine(const std::string& line, Program* program) {
  std::istringstream words(line);
  std::string key;
  if (!(words >> key)) return "";
  const auto number = [&](int64_t* value) {
    return words >> *value && *value >= 0 ? "" : "\"" + line + "\" needs a number that isn't negative";
  };
  if (key == "name") {
    words >> program->name;
    return "";
  }
  if (key == "compute_us") return number(&program->compute_us);
  if (key == "temp_bytes") return number(&program->temp_bytes);
  if (key == "fail_every") return number(&program->fail_every);
  if (key == "alias") {
    int64_t result, parameter;
    if (!(words >> result >> parameter) || result < 0 || parameter < 0) return "\"" + line + "\" needs two indices";
    program->aliases.emplace_back(result, parameter);
    return "";
  }
  if (key == "output") {
    std::string type;
    words >> type;
    const auto found = Types().find(type);
    if (found == Types().end()) return "\"" + line + "\" has no known type";
    Output output{found->second.type, {}};
    for (int64_t dim; words >> dim;) {
      if (dim < 0 || dim > (int64_t{1} << 40)) return "\"" + line + "\" has a dimension out of range";
      output.dims.push_back(dim);
    }
    program->outputs.push_back(std::move(output));
    return "";
  }
  return "unknown line \"" + line + "\"";
}

}  // namespace

std::string Program::Parse(const std::string& text, Program* program) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != "simdev 1") return "a program begins with the line \"simdev 1\"";
  program->text = text;
  while (std::getline(lines, line)) {
    const std::string wrong = ParseLine(line, program);
    if (!wrong.empty()) return wrong;
  }
  for (const auto& [result, parameter] : program->aliases) {
    if (result >= static_cast<int64_t>(program->outputs.size())) return "an alias names a result that isn't there";
  }
  return "";
}

int64_t ElementBytes(PJRT_Buffer_Type type) {
  for (const auto& [name, info] : Types()) {
    if (info.type == type) return info.bytes;
  }
  return 0;
}

int64_t Bytes(PJRT_Buffer_Type type, const std::vector<int64_t>& dims) {
  int64_t bytes = ElementBytes(type);
  for (int64_t dim : dims) bytes *= dim;
  return bytes;
}

}  // namespace simdev
