// Runs a fuzz target on stored inputs, without a fuzzer: each argument is a file, or a folder of files.
//
// Errors:   an input of ours with fields that its message doesn't have any more: it looks like a test and does nothing.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#ifdef FUZZ_INPUT_IS_MESSAGE
#include "google/protobuf/unknown_field_set.h"
#include "tests/fuzz/proto_target.h"
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

#ifdef FUZZ_INPUT_IS_MESSAGE
// Only messages of ours: of others we know the fields that we use.
bool HasUnknownFields(const google::protobuf::Message& message) {
  const auto* reflection = message.GetReflection();
  const std::string& type = message.GetDescriptor()->full_name();
  if (type.rfind("switchtower.", 0) == 0 && !reflection->GetUnknownFields(message).empty()) return true;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated() && HasUnknownFields(reflection->GetMessage(message, field))) return true;
    for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); ++i) {
      if (HasUnknownFields(reflection->GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

// Inputs that a fuzzer made are called by their hash and may be anything; so may "raw_...".
bool IsStale(const std::string& name, const std::string& bytes) {
  if (name.rfind("raw_", 0) == 0 || name.find_first_not_of("0123456789abcdef") == std::string::npos) return false;
  auto input = switchtower::fuzz::NewInput();
  return input->ParseFromString(bytes) && HasUnknownFields(*input);
}
#else
bool IsStale(const std::string&, const std::string&) { return false; }
#endif

bool Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    std::fprintf(stderr, "%s can't be read\n", path.c_str());
    return false;
  }
  if (IsStale(path.filename(), bytes)) {
    std::fprintf(stderr, "%s has fields that its message doesn't have: make it anew\n", path.c_str());
    return false;
  }
  std::fprintf(stderr, "%s\n", path.c_str());  // the last line names the culprit of a crash
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int replayed = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      if (!Replay(argv[i])) return 1;
      ++replayed;
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      if (!Replay(entry.path())) return 1;
      ++replayed;
    }
  }
  std::fprintf(stderr, "%d inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
