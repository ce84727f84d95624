#include "compiler/caching_compile_service.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/testing_programs.h"

namespace switchtower {
namespace {

using Result = absl::StatusOr<std::shared_ptr<const CompiledProgram>>;

template <typename Condition>
void Await(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_TRUE(condition());
}

// Keeps requests until the test answers them.
class FakeCompiler : public ProgramCompiler {
 public:
  void Compile(uint64_t number, const ProgramId& id, CompileRequest request, Done done) override {
    {
      MutexLock lock(mutex_);
      if (!stopped_) {
        calls_.push_back({number, id, std::move(done)});
        arrived_.NotifyAll();
        return;
      }
    }
    done(absl::CancelledError("stopped"));
  }
  void Join(uint64_t number, SessionId session) override {
    MutexLock lock(mutex_);
    joined_.insert(session);
  }
  void GiveUp(uint64_t number) override {
    std::vector<Call> given_up;
    {
      MutexLock lock(mutex_);
      auto it = std::find_if(calls_.begin(), calls_.end(), [&](const Call& call) { return call.number == number; });
      if (it == calls_.end()) return;
      given_up.push_back(std::move(*it));
      calls_.erase(it);
    }
    for (Call& call : given_up) call.done(absl::CancelledError("given up"));
  }
  size_t Waiting(SessionId session) override { return 0; }
  size_t calls() {
    MutexLock lock(mutex_);
    return calls_.size();
  }
  std::set<SessionId> sessions() {
    MutexLock lock(mutex_);
    return joined_;
  }
  void Stop() override {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    std::vector<Call> calls = Take();
    for (Call& call : calls) call.done(absl::CancelledError("stopped"));
  }
  // Waits for a request and answers it.
  void Answer(bool ok) {
    std::vector<Call> calls;
    while (calls.empty()) {
      {
        MutexLock lock(mutex_);
        while (calls_.empty()) arrived_.Wait(mutex_);
      }
      calls = Take();
    }
    ++answered;
    for (Call& call : calls) {
      if (ok) {
        call.done(std::make_shared<const CompiledProgram>(TestProgram(call.id.hash)));
      } else {
        call.done(absl::InvalidArgumentError("bad program"));
      }
    }
  }
  int answered = 0;

 private:
  struct Call {
    uint64_t number;
    ProgramId id;
    Done done;
  };
  std::vector<Call> Take() {
    MutexLock lock(mutex_);
    return std::exchange(calls_, {});
  }

  Mutex mutex_;
  CondVar arrived_;
  std::vector<Call> calls_ GUARDED_BY(mutex_);
  std::set<SessionId> joined_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
};

struct Fixture {
  explicit Fixture(std::unique_ptr<ProgramCache> cache = nullptr, uint64_t memory = 1 << 20) {
    auto fake = std::make_unique<FakeCompiler>();
    compiler = fake.get();
    CachingCompileService::Options options;
    options.memory_bytes_max = memory;
    service = std::make_unique<CachingCompileService>(options, std::move(fake), std::move(cache));
  }
  std::future<Result> Start(const std::string& module, int partitions = 1, int64_t first_device = 0,
                            uint64_t session = 1) {
    auto promise = std::make_shared<std::promise<Result>>();
    service->Compile(
        {module, TestOptions(partitions, first_device).SerializeAsString(), DeviceType{}, SessionId{session}},
        [promise](Result result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  FakeCompiler* compiler;
  std::unique_ptr<CachingCompileService> service;
};

TEST(CachingCompileServiceTest, CompilesOnceForEqualPrograms) {
  Fixture f;
  auto first = f.Start("m", 2, 0);
  auto second = f.Start("m", 2, 4);  // on other devices: the same program
  Await([&] { return f.service->stats().joined == 1; });
  f.compiler->Answer(true);
  const Result a = first.get(), b = second.get();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
  const Result c = f.Start("m", 2).get();
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(*a, *c);
  EXPECT_EQ(f.compiler->answered, 1);
  EXPECT_EQ(f.service->stats().memory_hits, 1u);
}

TEST(CachingCompileServiceTest, AnErrorIsntRemembered) {
  Fixture f;
  auto first = f.Start("m");
  f.compiler->Answer(false);
  EXPECT_FALSE(first.get().ok());
  auto second = f.Start("m");
  f.compiler->Answer(true);
  EXPECT_TRUE(second.get().ok());
}

TEST(CachingCompileServiceTest, BadOptionsDontReachTheCompiler) {
  Fixture f;
  EXPECT_EQ(f.Start("m", 4000).get().status().code(), absl::StatusCode::kUnimplemented);
}

TEST(CachingCompileServiceTest, MemoryIsBounded) {
  Fixture f(nullptr, 14'000);  // two programs
  for (const char* module : {"a", "b", "c"}) {
    auto result = f.Start(module);
    f.compiler->Answer(true);
    ASSERT_TRUE(result.get().ok());
  }
  EXPECT_LE(f.service->stats().memory_bytes, 14'000u);
  EXPECT_TRUE(f.Start("c").get().ok());
  auto evicted = f.Start("a");
  f.compiler->Answer(true);
  EXPECT_TRUE(evicted.get().ok());
  EXPECT_EQ(f.compiler->answered, 4);
}

TEST(CachingCompileServiceTest, FindsOnDiskWhatAnotherCompiled) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "compile_service_XXXXXX").string();
  const std::string root = mkdtemp(name.data());
  {
    Fixture f(*ProgramCache::Open({root}));
    auto result = f.Start("m");
    f.compiler->Answer(true);
    ASSERT_TRUE(result.get().ok());
  }  // the destructor writes what is still to be written
  {
    Fixture f(*ProgramCache::Open({root}));
    EXPECT_TRUE(f.Start("m").get().ok());
    EXPECT_EQ(f.compiler->answered, 0);
    EXPECT_EQ(f.service->stats().disk_hits, 1u);
  }
  fs::remove_all(root);
}

TEST(CachingCompileServiceTest, WhatOnlyAnEndedSessionWaitsForIsGivenUp) {
  Fixture f;
  std::future<Result> alone = f.Start("m", 1, 0, 1);
  Await([&] { return f.compiler->calls() == 1; });
  f.service->EndSession(SessionId{1});
  EXPECT_EQ(alone.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(f.compiler->calls(), 0u);
  EXPECT_EQ(f.service->stats().in_progress, 0u);
  std::future<Result> next = f.Start("m", 1, 0, 2);
  f.compiler->Answer(true);
  EXPECT_TRUE(next.get().ok());
}

TEST(CachingCompileServiceTest, WhatAnotherSessionWaitsForGoesOn) {
  Fixture f;
  std::future<Result> first = f.Start("m", 1, 0, 1);
  Await([&] { return f.compiler->calls() == 1; });
  std::future<Result> second = f.Start("m", 1, 0, 2);
  Await([&] { return f.compiler->sessions().contains(SessionId{2}); });
  f.service->EndSession(SessionId{1});
  EXPECT_EQ(first.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(f.compiler->calls(), 1u);
  f.compiler->Answer(true);
  EXPECT_TRUE(second.get().ok());
}

TEST(CachingCompileServiceTest, SessionsThatEndAtAnyTimeLeaveNothing) {
  Fixture f;
  std::vector<std::future<Result>> results;
  for (uint64_t session = 1; session <= 300; ++session) {
    results.push_back(f.Start("m", 1, 0, session));
    if (session % 3 == 0) std::this_thread::yield();
    if (session > 1) f.service->EndSession(SessionId{session - 1});
  }
  f.service->EndSession(SessionId{300});
  for (std::future<Result>& result : results) EXPECT_EQ(result.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(f.service->stats().in_progress, 0u);
  Await([&] { return f.compiler->calls() == 0; });
}

TEST(CachingCompileServiceTest, TheEndAnswersEverybody) {
  std::future<Result> result;
  {
    Fixture f;
    result = f.Start("m");
  }
  EXPECT_EQ(result.get().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace switchtower
