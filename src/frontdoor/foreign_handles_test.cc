// I-7: a session can't name another's objects. Two clients over one real controller; for each field of each request
// that holds a handle, taken from the protocol's own description, one client puts the other's handles there.
//
// A field that this test doesn't know makes it fail: say in kMeanings what it names, and write the request in
// SampleRequest().
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/sessions/testing_controller.h"
#include "frontdoor/request_parts.h"
#include "frontdoor/sample_client.h"
#include "google/protobuf/descriptor.h"

namespace switchtower {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr uint64_t kVictimsFirst = 5000;  // of the handles that the other client chooses

enum class Meaning {
  kThere,   // must be there: another's is an error
  kNew,     // what the request makes, in the session's own numbers
  kNowhere  // of things that no session here has
};

// By message and field.
const std::map<std::string, Meaning>& Meanings() {
  static const auto& meanings = *new std::map<std::string, Meaning>{
      {"CheckFutureRequest.future_handle", Meaning::kThere},
      {"CheckValueReadyRequest.value_handles", Meaning::kThere},
      // An upload may come later than the request: another session's never does.
      {"MakeArrayFromHostBufferRequest.host_buffer_handle", Meaning::kNew},
      {"MakeArrayFromHostBufferRequest.array_handle", Meaning::kNew},
      {"HostBuffer.host_buffer_handle", Meaning::kNew},
      {"MakeArraysFromHostBufferShardsRequest.array_handles", Meaning::kNew},
      {"MakeErrorArraysRequest.array_handles", Meaning::kNew},
      {"CopyToHostBufferRequest.host_buffer_handle", Meaning::kNew},
      {"CopyToHostBufferRequest.array_handle", Meaning::kThere},
      {"AssembleArrayFromSingleDeviceArraysRequest.single_device_array_handles", Meaning::kThere},
      {"AssembleArrayFromSingleDeviceArraysRequest.result_handle", Meaning::kNew},
      {"DisassembleIntoSingleDeviceArraysRequest.array_handle", Meaning::kThere},
      {"DisassembleIntoSingleDeviceArraysRequest.result_handles", Meaning::kNew},
      {"FullyReplicatedShardRequest.array_handle", Meaning::kThere},
      {"FullyReplicatedShardRequest.result_handle", Meaning::kNew},
      {"CopyArraysRequest.array_handles", Meaning::kThere},
      {"CopyArraysRequest.result_handles", Meaning::kNew},
      {"RemapArraysRequest.array_handles", Meaning::kThere},
      {"RemapArraysRequest.result_handles", Meaning::kNew},
      {"ReshardArraysRequest.array_handles", Meaning::kThere},
      {"ReshardArraysRequest.result_handles", Meaning::kNew},
      {"BitcastArraysRequest.array_handles", Meaning::kThere},
      {"BitcastArraysRequest.result_handles", Meaning::kNew},
      {"DeleteArrayRequest.array_handle", Meaning::kThere},
      {"IsArrayDeletedRequest.array_handle", Meaning::kThere},
      {"DestructArrayRequest.array_handle", Meaning::kThere},
      {"LoadedExecutableMetadataRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableCostAnalysisRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableHumanReadableProgramTextRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableExecuteRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableExecuteRequest.args_handles", Meaning::kThere},
      {"LoadedExecutableExecuteRequest.result_array_handle", Meaning::kNew},
      {"LoadedExecutableExecuteRequest.result_status_handle", Meaning::kNew},
      {"LoadedExecutableFetchExecuteResultRequest.result_status_handle", Meaning::kThere},
      {"LoadedExecutableDeleteRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableIsDeletedRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableDestructRequest.loaded_executable_handle", Meaning::kThere},
      {"LoadedExecutableMpmdMetadataRequest.mpmd_loaded_executable_handle", Meaning::kNowhere},
      {"LoadedExecutableMpmdCostAnalysisRequest.loaded_executable_handle", Meaning::kNowhere},
      {"LoadedHostCallbackPollRequest.loaded_host_callback_handle", Meaning::kNowhere},
      {"LoadedHostCallbackPollRequest.operand_host_buffer_handle", Meaning::kNowhere},
      {"LoadedHostCallbackReturnRequest.host_callback_execution_handle", Meaning::kNowhere},
      {"LoadedHostCallbackReturnRequest.result_host_buffer_handle", Meaning::kNowhere},
  };
  return meanings;
}

// From the request's message to the field with the handle.
using Path = std::vector<const FieldDescriptor*>;

std::string Key(const Path& path) { return path.back()->containing_type()->name() + "." + path.back()->name(); }

void FindHandles(const Descriptor* message, Path path, std::vector<Path>* found) {
  if (path.size() > 4) return;  // shardings and the like lie deeper, without handles
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    path.push_back(field);
    if (field->type() == FieldDescriptor::TYPE_FIXED64 && field->name().find("handle") != std::string::npos) {
      found->push_back(path);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FindHandles(field->message_type(), path, found);
    }
    path.pop_back();
  }
}

std::vector<Path> AllHandles() {
  std::vector<Path> found;
  FindHandles(IfrtRequest::descriptor(), {}, &found);
  return found;
}

// False if the request leaves that field out.
bool Replace(Message& message, const Path& path, size_t depth, uint64_t handle) {
  const auto* reflection = message.GetReflection();
  const FieldDescriptor* field = path[depth];
  const bool there =
      field->is_repeated() ? reflection->FieldSize(message, field) > 0 : reflection->HasField(message, field);
  if (!there) return false;
  if (depth + 1 < path.size()) {
    return Replace(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, 0)
                                        : *reflection->MutableMessage(&message, field),
                   path, depth + 1, handle);
  }
  if (field->is_repeated()) {
    reflection->SetRepeatedUInt64(&message, field, 0, handle);
  } else {
    reflection->SetUInt64(&message, field, handle);
  }
  return true;
}

class ForeignHandlesTest : public ControllerTest, public testing::WithParamInterface<Path> {
 protected:
  ForeignHandlesTest() {
    compiler.Register("one", TestProgram("one", 1, 1, 1));
    StartAll();
    victim = NewClient(kVictimsFirst, /*burnt=*/1000);
    attacker = NewClient(1, /*burnt=*/0);
    victim->MakeThings();
    attacker->MakeThings();
  }
  std::shared_ptr<SampleClient> NewClient(uint64_t first_handle, int burnt) {
    EXPECT_TRUE(Open().ok());
    std::unique_ptr<Session> own = std::move(sessions.back());
    sessions.pop_back();
    // So that the handles that both servers' sides draw differ.
    for (int i = 0; i < burnt; ++i) own->NewHandle();
    return std::make_shared<SampleClient>(std::move(own), kProtocolMax, first_handle, [this] { Settle(); });
  }
  std::shared_ptr<SampleClient> victim, attacker;
};

TEST_P(ForeignHandlesTest, HarmNobody) {
  const Path& path = GetParam();
  const auto meaning = Meanings().find(Key(path));
  ASSERT_NE(meaning, Meanings().end()) << "what does " << Key(path) << " name?";
  const int kind = path[0]->number();
  const bool refused_anyway = meaning->second == Meaning::kNowhere;
  for (uint64_t foreign : victim->Things()) {
    ASSERT_GE(foreign % kServerHandleMin, 1000u - 1) << "a handle that the attacker may have too";
    IfrtRequest request = SampleRequest(kind, *attacker);
    ASSERT_TRUE(Replace(request, path, 0, foreign)) << "SampleRequest() leaves out " << Key(path);
    const absl::Status status = attacker->RunToEnd(request);
    if (meaning->second != Meaning::kThere) continue;
    EXPECT_TRUE(status.code() == absl::StatusCode::kNotFound || status.code() == absl::StatusCode::kInvalidArgument)
        << Key(path) << ": " << status;
  }
  victim->ExpectUnharmed();
  // It was the handle: with one's own the same request works.
  if (refused_anyway) return;
  EXPECT_TRUE(attacker->RunToEnd(SampleRequest(kind, *attacker)).ok());
}

INSTANTIATE_TEST_SUITE_P(EachField, ForeignHandlesTest, testing::ValuesIn(AllHandles()), [](const auto& info) {
  std::string name;
  for (const FieldDescriptor* field : info.param) name += (name.empty() ? "" : "_") + field->name();
  return name;
});

TEST(HandleMeaningsTest, NameOnlyFieldsThatThereAre) {
  std::set<std::string> keys;
  for (const Path& path : AllHandles()) keys.insert(Key(path));
  EXPECT_EQ(keys.size(), Meanings().size());
}

}  // namespace
}  // namespace switchtower
