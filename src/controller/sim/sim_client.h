// A client that does anything the interface allows, at random: makes arrays, runs programs on overlapping sets of
// devices, moves, reads and drops arrays, and knows what each value should be.
//
// Place:    controller/sim; for property tests.
// Threads:  the loop's.
// Lifetime: the cluster and the world outlive it. Its end runs the loop until its session has ended there, too.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "controller/sim/sim_cluster.h"

namespace switchtower {

// What the clients of one run have in common.
struct SimWorld {
  static constexpr int64_t kElements = 12;  // of every array: cut evenly over gangs of 1, 2, 3, 4, 6 and 12

  // Draws gangs and programs, registers the programs.
  SimWorld(SimCluster& cluster, uint64_t seed, int64_t temporaries_max);

  struct Program {
    std::string name;
    int parameters = 0;
    int results = 1;
    bool donates = false;  // its first argument
  };
  std::vector<std::vector<uint64_t>> gangs;    // device ids by rank
  std::vector<std::vector<Program>> programs;  // by number of ranks
};

class SimClient {
 public:
  struct Options {
    uint64_t seed = 1;
    int steps = 60;
    size_t launches_max = 64;     // it isn't read on while more are under way
    bool may_be_refused = false;  // memory is limited
    double ends_early = 0;        // the chance of it
    SessionStanding standing;
  };
  SimClient(SimCluster& cluster, const SimWorld& world, Options options);
  ~SimClient();

  // All was answered, and nothing is under way any more.
  bool done() const { return ended_ && reads_open_ == 0 && (closed_ || session_->under_way() == 0); }
  const std::vector<std::string>& wrong() const { return wrong_; }
  uint64_t values_checked() const { return values_checked_; }
  uint64_t refusals() const { return refusals_; }
  // Where it is, for a stalled run's story.
  std::string Describe() const;

 private:
  struct Array {
    uint64_t id = 0;
    size_t gang = 0;
    SimWords value;
  };
  int Draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  ArraySpec SpecOn(size_t gang) const;
  void Next();
  void Step();
  void Put();
  void Execute();
  void Reshard();
  void Read(size_t index);
  void AwaitSome();
  void Drop(size_t index);
  void Finish();
  void Check(const absl::Status& status, const char* what);
  uint64_t Handle(size_t gang, const std::string& program);

  SimCluster& cluster_;
  const SimWorld& world_;
  const Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<Session> session_;
  std::vector<Array> arrays_;
  std::map<std::pair<size_t, std::string>, uint64_t> executables_;
  uint64_t last_id_ = 0;
  int steps_ = 0;
  int reads_open_ = 0;
  bool ended_ = false, closed_ = false;
  uint64_t values_checked_ = 0, refusals_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace switchtower
