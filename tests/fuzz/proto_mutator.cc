// Mutates inputs that are messages as messages: what comes out parses, so that the fuzzer's time goes into what lies
// behind the parser. Messages inside of bytes fields (shardings, options) are mutated as such where they are known.
// Values of one place are tried in others: ids mean something only where they come twice.
//
// Place:    linked into fuzzers only; libFuzzer finds the two functions by name.
// Errors:   none. An input that doesn't parse, and one in twenty that does, is mutated as bytes.
#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "tests/fuzz/proto_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace switchtower::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using Random = std::minstd_rand;
using Texts = std::vector<std::string>;

constexpr int kDepthMax = 12;
constexpr uint64_t kServer = uint64_t{1} << 48;  // the first handle that a server draws
constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 5,
                                 7,
                                 8,
                                 11,
                                 15,
                                 16,
                                 21,
                                 31,
                                 64,
                                 99,
                                 100,
                                 2048,
                                 kServer,
                                 kServer + 1,
                                 kServer + 2,
                                 kServer + 3,
                                 kServer + 4,
                                 kServer + 5,
                                 kServer + 6,
                                 uint64_t{1} << 31,
                                 uint64_t{1} << 32,
                                 uint64_t{1} << 62,
                                 (uint64_t{1} << 63) - 1,
                                 uint64_t{1} << 63,
                                 ~uint64_t{0}};

// Words that mean something in a field of that name; "" is for any other.
const Texts& Words(const std::string& field) {
  static const auto& table = *new std::map<std::string, Texts>{
      {"opcode",
       {"parameter",
        "constant",
        "add",
        "multiply",
        "maximum",
        "tuple",
        "get-tuple-element",
        "call",
        "while",
        "conditional",
        "fusion",
        "custom-call",
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "collective-permute",
        "collective-broadcast",
        "ragged-all-to-all",
        "partition-id",
        "replica-id"}},
      {"custom_call_target",
       {"TopK", "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback", "switchtower.all_reduce"}},
      {"backend_config", {"{index = 7 : ui64}", "{}"}},
      {"type_name",
       {"xla::ifrt::HloSharding", "xla::ifrt::SingleDeviceSharding", "xla::ifrt::ConcreteSharding",
        "xla::ifrt::ConcreteEvenSharding", "xla::ifrt::OpaqueSharding", "xla::ifrt::PjRtLayout",
        "xla::ifrt::CompactLayout", "xla::ifrt::XlaProgram", "xla::ifrt::XlaCompileOptions"}},
      {"", {"", "{1,0}", "{0}", "device", "pinned_host", "one", "two", "eight", "answer 0", "cpu:1x2"}}};
  const auto found = table.find(field);
  return found == table.end() ? table.at("") : found->second;
}

std::unique_ptr<Message> NewByName(const std::string& name) {
  const Descriptor* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
  if (type == nullptr) return nullptr;
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// An empty message of the kind whose bytes the field holds; null if it isn't known to hold one.
std::unique_ptr<Message> NewInside(const Message& message, const FieldDescriptor* field) {
  if (field->name() == "xla_hlo_sharding") return NewByName("xla.OpSharding");
  const FieldDescriptor* type = message.GetDescriptor()->FindFieldByName("type_name");
  if (field->name() != "data" || type == nullptr) return nullptr;
  // Of xla.ifrt.Serialized: xla::ifrt::HloSharding names the bytes of an xla.ifrt.HloShardingProto.
  return NewByName(absl::StrReplaceAll(message.GetReflection()->GetString(message, type), {{"::", "."}}) + "Proto");
}

std::string MutatedBytes(std::string bytes) {
  const size_t size = bytes.size();
  bytes.resize(size + 16);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, bytes.size()));
  return bytes;
}

void Collect(Message& message, std::vector<Message*>* all) {
  all->push_back(&message);
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      Collect(*reflection->MutableMessage(&message, field), all);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      Collect(*reflection->MutableRepeatedMessage(&message, field, i), all);
    }
  }
}

class Mutator {
 public:
  explicit Mutator(Random& random) : random_(random) {}

  // One field of one of the messages: mostly one that is set, so that what is there is varied rather than diluted.
  void MutateOnce(Message& root) {
    std::vector<Message*> all;
    Collect(root, &all);
    for (const Message* message : all) NoteNumbers(*message);
    Message& message = *all[Below(all.size())];
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    const Descriptor* type = message.GetDescriptor();
    if (!fields.empty() && Below(4) != 0) {
      MutateField(message, fields[Below(fields.size())]);
    } else if (type->field_count() > 0) {
      MutateField(message, type->field(static_cast<int>(Below(type->field_count()))));
    }
  }

 private:
  size_t Below(size_t limit) { return random_() % limit; }

  // The input's integers of 64 bits, among which ids are.
  void NoteNumbers(const Message& message) {
    const auto* reflection = message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const bool is_signed = field->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
      if (!is_signed && field->cpp_type() != FieldDescriptor::CPPTYPE_UINT64) continue;
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count && numbers_.size() < kNotedMax; ++i) {
        if (field->is_repeated()) {
          numbers_.push_back(is_signed ? static_cast<uint64_t>(reflection->GetRepeatedInt64(message, field, i))
                                       : reflection->GetRepeatedUInt64(message, field, i));
        } else {
          numbers_.push_back(is_signed ? static_cast<uint64_t>(reflection->GetInt64(message, field))
                                       : reflection->GetUInt64(message, field));
        }
      }
    }
  }

  uint64_t Number(const FieldDescriptor* field, uint64_t now) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM && Below(8) != 0) {
      const auto* type = field->enum_type();
      return static_cast<uint64_t>(type->value(static_cast<int>(Below(type->value_count())))->number());
    }
    switch (Below(6)) {
      case 0:
        return now + 1;
      case 1:
        return now - 1;
      case 2:
        return now ^ (uint64_t{1} << Below(64));
      case 3:
        return kNumbers[Below(std::size(kNumbers))];
      default:
        return numbers_.empty() ? kNumbers[Below(std::size(kNumbers))] : numbers_[Below(numbers_.size())];
    }
  }

  std::string Text(const Message& message, const FieldDescriptor* field, std::string now) {
    auto inner = NewInside(message, field);
    if (inner != nullptr && Below(8) != 0 && inner->ParseFromString(now)) {
      MutateOnce(*inner);
      return inner->SerializeAsString();
    }
    if (Below(3) == 0) {
      const Texts& words = Words(field->name());
      return words[Below(words.size())];
    }
    std::string text = MutatedBytes(std::move(now));
    if (field->type() == FieldDescriptor::TYPE_STRING) {  // the parser wants UTF-8
      for (char& c : text) c = static_cast<char>(c & 0x7f);
    }
    return text;
  }

  void Grow(Message& message, int depth) {
    const Descriptor* type = message.GetDescriptor();
    if (depth > kDepthMax || type->field_count() == 0) return;
    for (int left = 1 + static_cast<int>(Below(3)); left > 0; --left) {
      const FieldDescriptor* field = type->field(static_cast<int>(Below(type->field_count())));
      MutateValue(message, field, -1, depth);
    }
  }

  // Gives the field, or element `index` of a repeated one, another value. -1: adds an element.
  void MutateValue(Message& message, const FieldDescriptor* field, int index, int depth) {
    const auto* reflection = message.GetReflection();
    switch (field->cpp_type()) {
#define ST_NUMBER_(CPP, Type, CType)                                                              \
  case FieldDescriptor::CPPTYPE_##CPP: {                                                          \
    const auto now = !field->is_repeated() ? reflection->Get##Type(message, field)                \
                     : index >= 0          ? reflection->GetRepeated##Type(message, field, index) \
                                           : CType{};                                                      \
    const auto value = static_cast<CType>(Number(field, static_cast<uint64_t>(now)));             \
    if (!field->is_repeated()) {                                                                  \
      reflection->Set##Type(&message, field, value);                                              \
    } else if (index >= 0) {                                                                      \
      reflection->SetRepeated##Type(&message, field, index, value);                               \
    } else {                                                                                      \
      reflection->Add##Type(&message, field, value);                                              \
    }                                                                                             \
    break;                                                                                        \
  }
      ST_NUMBER_(INT32, Int32, int32_t)
      ST_NUMBER_(INT64, Int64, int64_t)
      ST_NUMBER_(UINT32, UInt32, uint32_t)
      ST_NUMBER_(UINT64, UInt64, uint64_t)
      ST_NUMBER_(ENUM, EnumValue, int)
      ST_NUMBER_(BOOL, Bool, bool)
#undef ST_NUMBER_
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        break;  // nothing here branches on one
      case FieldDescriptor::CPPTYPE_STRING:
        if (!field->is_repeated()) {
          reflection->SetString(&message, field, Text(message, field, reflection->GetString(message, field)));
        } else if (index >= 0) {
          reflection->SetRepeatedString(&message, field, index,
                                        Text(message, field, reflection->GetRepeatedString(message, field, index)));
        } else {
          reflection->AddString(&message, field, Text(message, field, ""));
        }
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (!field->is_repeated()) {
          Grow(*reflection->MutableMessage(&message, field), depth + 1);
        } else {
          Grow(index >= 0 ? *reflection->MutableRepeatedMessage(&message, field, index)
                          : *reflection->AddMessage(&message, field),
               depth + 1);
        }
        break;
    }
  }

  void MutateField(Message& message, const FieldDescriptor* field) {
    const auto* reflection = message.GetReflection();
    if (!field->is_repeated()) {
      if (Below(8) == 0) {
        reflection->ClearField(&message, field);
      } else {
        MutateValue(message, field, 0, 0);
      }
      return;
    }
    const int count = reflection->FieldSize(message, field);
    const int index = count == 0 ? -1 : static_cast<int>(Below(count));
    const int other = count == 0 ? -1 : static_cast<int>(Below(count));
    switch (Below(5)) {
      case 0:
        if (count == 0) break;
        reflection->SwapElements(&message, field, index, count - 1);
        reflection->RemoveLast(&message, field);
        return;
      case 1:
        if (count == 0) break;
        reflection->SwapElements(&message, field, index, other);
        return;
      case 2:
        if (count == 0 || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) break;
        reflection->AddMessage(&message, field)
            ->CopyFrom(reflection->GetRepeatedMessage(message, field, static_cast<int>(Below(count))));
        return;
      case 3:
        MutateValue(message, field, -1, 0);
        return;
      default:
        break;
    }
    MutateValue(message, field, index, 0);
  }

  static constexpr size_t kNotedMax = 4096;
  Random& random_;
  std::vector<uint64_t> numbers_;
};

// 0: too large.
size_t Store(const Message& message, uint8_t* data, size_t max_size) {
  const size_t size = message.ByteSizeLong();
  if (size > max_size || !message.SerializePartialToArray(data, static_cast<int>(size))) return 0;
  return size;
}

}  // namespace
}  // namespace switchtower::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace switchtower::fuzz;
  google::protobuf::LogSilencer quiet;
  Random random(seed);
  auto input = NewInput();
  if (!input->ParsePartialFromArray(data, static_cast<int>(size)) || random() % 20 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  Mutator mutator(random);
  for (int left = 1 + static_cast<int>(random() % 4); left > 0; --left) mutator.MutateOnce(*input);
  const size_t stored = Store(*input, data, max_size);
  return stored > 0 ? stored : LLVMFuzzerMutate(data, size, max_size);
}

// A part of one input takes the place of such a part in the other.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2, size_t size2,
                                            uint8_t* out, size_t max_out_size, unsigned seed) {
  using namespace switchtower::fuzz;
  google::protobuf::LogSilencer quiet;
  Random random(seed);
  auto into = NewInput(), from = NewInput();
  if (!into->ParsePartialFromArray(data1, static_cast<int>(size1)) ||
      !from->ParsePartialFromArray(data2, static_cast<int>(size2))) {
    return 0;
  }
  std::vector<google::protobuf::Message*> targets, sources;
  Collect(*into, &targets);
  Collect(*from, &sources);
  google::protobuf::Message& target = *targets[random() % targets.size()];
  std::erase_if(sources, [&](const auto* one) { return one->GetDescriptor() != target.GetDescriptor(); });
  if (sources.empty()) return 0;
  if (&target == into.get()) {
    target.MergeFrom(*sources[0]);  // steps of both
  } else {
    target.CopyFrom(*sources[random() % sources.size()]);
  }
  return Store(*into, out, max_out_size);
}
