#include "frontdoor/user_context_table.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "controller/api/session.h"

namespace switchtower {

// What outlives the table with its Refs: who is still named, and what the client wasn't told yet.
class UserContextTable::Notices : public std::enable_shared_from_this<Notices> {
 public:
  Ref Begin(uint64_t id) EXCLUDES(mutex_);
  Ref Find(uint64_t id) const EXCLUDES(mutex_);
  void Forget(const Context& context) EXCLUDES(mutex_);
  void Stamp(xla::ifrt::proxy::ResponseMetadata* metadata) EXCLUDES(mutex_);
  size_t live() const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::weak_ptr<Context>> contexts_ GUARDED_BY(mutex_);
  std::vector<uint64_t> due_ GUARDED_BY(mutex_);
  int64_t next_seq_num_ GUARDED_BY(mutex_) = 0;
};

class UserContextTable::Context {
 public:
  Context(std::shared_ptr<Notices> notices, uint64_t id) : id(id), notices_(std::move(notices)) {}
  ~Context() { notices_->Forget(*this); }

  const uint64_t id;
  int64_t requests = 1;  // guarded by the mutex of Notices

 private:
  const std::shared_ptr<Notices> notices_;
};

UserContextTable::Ref UserContextTable::Notices::Begin(uint64_t id) {
  MutexLock lock(mutex_);
  std::weak_ptr<Context>& slot = contexts_[id];
  if (Ref known = slot.lock()) {
    ++known->requests;
    return known;
  }
  auto context = std::make_shared<Context>(shared_from_this(), id);
  slot = context;
  return context;
}

UserContextTable::Ref UserContextTable::Notices::Find(uint64_t id) const {
  MutexLock lock(mutex_);
  auto it = contexts_.find(id);
  return it == contexts_.end() ? nullptr : it->second.lock();
}

void UserContextTable::Notices::Forget(const Context& context) {
  MutexLock lock(mutex_);
  due_.insert(due_.end(), context.requests, context.id);
  // Not if a younger context has taken the id meanwhile.
  auto it = contexts_.find(context.id);
  if (it != contexts_.end() && it->second.expired()) contexts_.erase(it);
}

void UserContextTable::Notices::Stamp(xla::ifrt::proxy::ResponseMetadata* metadata) {
  MutexLock lock(mutex_);
  metadata->set_seq_num(next_seq_num_++);
  metadata->mutable_destroyed_user_context_ids()->Add(due_.begin(), due_.end());
  due_.clear();
}

size_t UserContextTable::Notices::live() const {
  MutexLock lock(mutex_);
  return contexts_.size();
}

// Guarded by the table's mutex.
struct UserContextTable::Launch {
  bool ended = false;
  // Its own, and of arrays that were destructed while it was the youngest.
  std::vector<Ref> kept;
};

UserContextTable::UserContextTable() : notices_(std::make_shared<Notices>()) {}
UserContextTable::~UserContextTable() = default;

UserContextTable::Ref UserContextTable::Begin(uint64_t id) { return id == 0 ? nullptr : notices_->Begin(id); }

void UserContextTable::Own(uint64_t array, Ref ref) {
  if (ref == nullptr || array == 0) return;
  MutexLock lock(mutex_);
  arrays_.try_emplace(array, std::move(ref));
}

void UserContextTable::Destructed(absl::Span<const uint64_t> arrays) {
  MutexLock lock(mutex_);
  for (uint64_t array : arrays) {
    auto it = arrays_.find(array);
    if (it == arrays_.end()) continue;
    if (!launches_.empty()) launches_.back()->kept.push_back(std::move(it->second));
    arrays_.erase(it);
  }
}

std::shared_ptr<UserContextTable::Launch> UserContextTable::BeginLaunch(Ref ref) {
  auto launch = std::make_shared<Launch>();
  if (ref != nullptr) launch->kept.push_back(std::move(ref));
  MutexLock lock(mutex_);
  launches_.push_back(launch);
  return launch;
}

void UserContextTable::EndLaunch(Launch& launch, const absl::Status& status) {
  if (!status.ok()) Remember(status);
  MutexLock lock(mutex_);
  launch.ended = true;
  while (!launches_.empty() && launches_.front()->ended) {
    launches_.front()->kept.clear();
    launches_.pop_front();
  }
}

void UserContextTable::Remember(const absl::Status& error) {
  const auto payload = error.GetPayload(kUserContextPayload);
  uint64_t id = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &id)) return;
  Ref context = notices_->Find(id);
  if (context == nullptr) return;
  MutexLock lock(mutex_);
  if (!remembered_.empty() && remembered_.back() == context) return;
  remembered_.push_back(std::move(context));
  if (remembered_.size() > kRemembered) remembered_.pop_front();
}

void UserContextTable::Stamp(xla::ifrt::proxy::ResponseMetadata* metadata) { notices_->Stamp(metadata); }

UserContextTable::Counts UserContextTable::counts() const {
  MutexLock lock(mutex_);
  return {notices_->live(), arrays_.size(), launches_.size()};
}

}  // namespace switchtower
