#include "compiler/program_proto.h"

#include <string>

#include <gtest/gtest.h>

namespace switchtower {
namespace {

compiler::CompiledProgram Good() {
  ProgramValue value;
  value.shape = value.shard_shape = Shape{DType::kF32, {4, 2}};
  value.layout = Layout::Default(2);
  CompiledProgram program;
  program.id = ProgramId{"hash"};
  program.info.name = "jit_f";
  program.info.num_partitions = 1;
  program.info.parameters = {value, value};
  program.info.results = {value};
  program.info.donatable_parameters = {1};
  program.info.memory.temporaries = 100;
  return ToProto(program);
}

absl::Status Read(compiler::CompiledProgram proto) { return FromProto(std::move(proto)).status(); }

TEST(ProgramProtoTest, GoesThereAndBack) {
  const auto program = FromProto(Good());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ToProto(*program).SerializeAsString(), Good().SerializeAsString());
}

TEST(ProgramProtoTest, RefusesWhatNoProgramIs) {
  auto proto = Good();
  proto.mutable_info()->set_num_partitions(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(proto)));
  proto = Good();
  proto.mutable_info()->mutable_parameters(0)->set_minor_to_major(0, 7);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(proto)));
  proto = Good();
  proto.mutable_info()->mutable_results(0)->mutable_shard_shape()->add_dims(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(proto)));
}

TEST(ProgramProtoTest, RefusesToDonateAParameterTwiceOrOneThatIsntThere) {
  for (int32_t parameter : {1, 2, -1}) {
    auto proto = Good();
    proto.mutable_info()->add_donatable_parameters(parameter);
    EXPECT_TRUE(absl::IsInvalidArgument(Read(proto))) << parameter;
  }
}

// It would be room for others that isn't there.
TEST(ProgramProtoTest, RefusesToNeedLessMemoryThanNone) {
  auto proto = Good();
  proto.mutable_info()->mutable_memory()->set_temporaries(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(proto)));
  proto = Good();
  proto.mutable_info()->mutable_memory()->set_host_temporaries(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(proto)));
}

TEST(ProgramProtoTest, AnAnswerIsOfTheProgramThatWasAskedFor) {
  compiler::CompileAnswer answer;
  *answer.mutable_program() = Good();
  EXPECT_TRUE(ProgramOf(compiler::CompileAnswer(answer), ProgramId{"hash"}).ok());
  EXPECT_EQ(ProgramOf(std::move(answer), ProgramId{"another"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace switchtower
