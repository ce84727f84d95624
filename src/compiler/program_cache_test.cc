#include "compiler/program_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/program_file.h"
#include "compiler/program_key.h"
#include "compiler/program_proto.h"
#include "compiler/testing_programs.h"

namespace switchtower {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ProgramCacheTest : public ::testing::Test {
 protected:
  ProgramCacheTest() {
    std::string name = (fs::temp_directory_path() / "program_cache_XXXXXX").string();
    root_ = mkdtemp(name.data());
    folder_ = root_ + "/a/b";
  }
  ~ProgramCacheTest() override { fs::remove_all(root_); }

  std::unique_ptr<ProgramCache> Open(uint64_t bytes_max = 1 << 30) {
    auto cache = ProgramCache::Open({folder_, bytes_max});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  std::string PathOf(const std::string& hash) const { return folder_ + "/" + hash + ".program"; }
  int Files() const {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) files += entry.is_regular_file();
    return files;
  }

  std::string root_, folder_;
};

TEST_F(ProgramCacheTest, GivesBackWhatWasPut) {
  const CompiledProgram program = TestProgram(HashOf('a'));
  Open()->Put(program);
  const auto read = Open()->Get(program.id);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(ToProto(*read).SerializeAsString(), ToProto(program).SerializeAsString());
  EXPECT_EQ(Open()->Get(ProgramId{HashOf('b')}), nullptr);
  EXPECT_EQ(fs::status(folder_).permissions() & fs::perms::all, fs::perms::owner_all);
}

TEST_F(ProgramCacheTest, EachFlippedByteIsAMiss) {
  const CompiledProgram program = TestProgram(HashOf('a'), 50);
  const std::string good = *EncodeProgramFile(program);
  ASSERT_TRUE(DecodeProgramFile(good).ok());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_FALSE(DecodeProgramFile(bad).ok()) << "byte " << i;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(DecodeProgramFile(std::string_view(good).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeProgramFile(good + "x").ok());
}

TEST_F(ProgramCacheTest, ACorruptFileIsDeleted) {
  auto cache = Open();
  const CompiledProgram program = TestProgram(HashOf('a'));
  cache->Put(program);
  fs::resize_file(PathOf(HashOf('a')), 500);
  EXPECT_EQ(cache->Get(program.id), nullptr);
  EXPECT_FALSE(fs::exists(PathOf(HashOf('a'))));
  EXPECT_EQ(cache->stats().corrupt, 1u);
  cache->Put(program);
  EXPECT_NE(cache->Get(program.id), nullptr);
}

TEST_F(ProgramCacheTest, AFileUnderAnotherNameIsAMiss) {
  auto cache = Open();
  cache->Put(TestProgram(HashOf('a')));
  fs::rename(PathOf(HashOf('a')), PathOf(HashOf('b')));
  EXPECT_EQ(cache->Get(ProgramId{HashOf('b')}), nullptr);
}

TEST_F(ProgramCacheTest, DoesntFollowLinksOrStrangeNames) {
  auto cache = Open();
  cache->Put(TestProgram(HashOf('a')));
  fs::create_symlink(PathOf(HashOf('a')), PathOf(HashOf('b')));
  EXPECT_EQ(cache->Get(ProgramId{HashOf('b')}), nullptr);
  EXPECT_EQ(cache->Get(ProgramId{"../" + HashOf('a')}), nullptr);
}

TEST_F(ProgramCacheTest, DropsTheLeastRecentlyUsed) {
  auto cache = Open(35'000);
  for (char c : {'a', 'b', 'c'}) {
    cache->Put(TestProgram(HashOf(c), 10'000));
    // Marks of time far enough apart for any file system, in the past.
    fs::last_write_time(PathOf(HashOf(c)), fs::file_time_type::clock::now() - std::chrono::hours('z' - c));
  }
  EXPECT_NE(cache->Get(ProgramId{HashOf('a')}), nullptr);  // the oldest becomes the youngest
  cache->Put(TestProgram(HashOf('d'), 10'000));
  EXPECT_EQ(cache->Get(ProgramId{HashOf('b')}), nullptr);
  EXPECT_NE(cache->Get(ProgramId{HashOf('a')}), nullptr);
  EXPECT_NE(cache->Get(ProgramId{HashOf('d')}), nullptr);
  EXPECT_EQ(cache->stats().evicted, 1u);
  EXPECT_LE(cache->stats().bytes, 35'000u);
  cache->Put(TestProgram(HashOf('e'), 40'000));
  EXPECT_EQ(cache->Get(ProgramId{HashOf('e')}), nullptr);
}

TEST_F(ProgramCacheTest, OldTemporariesGo) {
  Open();
  std::ofstream(folder_ + "/.tmp-1-1") << "x";
  std::ofstream(folder_ + "/.tmp-1-2") << "x";
  fs::last_write_time(folder_ + "/.tmp-1-1", fs::file_time_type::clock::now() - std::chrono::hours(2));
  Open();
  EXPECT_EQ(Files(), 1);
}

TEST_F(ProgramCacheTest, RefusesAFolderThatOthersMayWrite) {
  Open();
  chmod(folder_.c_str(), 0770);
  const auto cache = ProgramCache::Open({folder_});
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(cache.status().message()), HasSubstr("chmod 700"));
  chmod(folder_.c_str(), 0700);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
    EXPECT_FALSE(ProgramCache::Open({folder_}).ok());
  }
  std::ofstream(root_ + "/file") << "x";
  EXPECT_FALSE(ProgramCache::Open({root_ + "/file"}).ok());
}

TEST_F(ProgramCacheTest, SeveralWritersAndReadersShareAFolder) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      auto cache = Open(25'000);
      for (int i = 0; i < 60; ++i) {
        const std::string hash = HashOf("abcdef"[i % 6]);
        cache->Put(TestProgram(hash, 5'000));
        const auto read = cache->Get(ProgramId{hash});
        if (read == nullptr) continue;
        EXPECT_EQ(read->executable, TestProgram(hash, 5'000).executable);
      }
      EXPECT_EQ(cache->stats().corrupt, 0u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(Files(), 6);
}

TEST(ProgramKeyTest, DependsOnAllThatMatters) {
  ClientOptions options = *ParseClientOptions(TestOptions(2).SerializeAsString());
  DeviceType type{"cpu", "cpu", "avx2", {"device"}};
  const ProgramId key = ProgramKey("module", options, type, "1");
  EXPECT_EQ(key, ProgramKey("module", options, type, "1"));
  EXPECT_EQ(key.hash.size(), 32u);
  EXPECT_NE(key, ProgramKey("module2", options, type, "1"));
  EXPECT_NE(key, ProgramKey("module", options, type, "2"));
  DeviceType other = type;
  other.instruction_set = "avx512";
  EXPECT_NE(key, ProgramKey("module", options, other, "1"));
  EXPECT_NE(key, ProgramKey("module", *ParseClientOptions(TestOptions(3).SerializeAsString()), type, "1"));
}

}  // namespace
}  // namespace switchtower
