#include "worker_api/in_process_channel.h"

#include <deque>
#include <utility>

#include "base/mutex.h"

namespace switchtower {
namespace {

// What one end receives: kept until its handlers are there, then delivered in order on its own turn of the pool.
template <typename Item>
class Inbox : public std::enable_shared_from_this<Inbox<Item>> {
 public:
  struct Handlers {
    absl::AnyInvocable<void(Item)> on_item;
    absl::AnyInvocable<void(absl::Status)> on_closed;
  };

  explicit Inbox(ThreadPool& pool) : pool_(pool) {}

  void Start(Handlers handlers) {
    MutexLock lock(mutex_);
    handlers_ = std::make_unique<Handlers>(std::move(handlers));
    Schedule();
  }

  // False once closed.
  bool Put(Item item) {
    MutexLock lock(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    Schedule();
    return true;
  }

  void Close(absl::Status why) {
    MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    why_ = std::move(why);
    Schedule();
  }

 private:
  void Schedule() REQUIRES(mutex_) {
    if (running_ || handlers_ == nullptr || (items_.empty() && !closed_)) return;
    running_ = true;
    pool_.Post([self = this->shared_from_this()] { self->Drain(); });
  }

  void Drain() {
    while (true) {
      std::deque<Item> items;
      std::unique_ptr<Handlers> last;
      Handlers* handlers = nullptr;
      {
        MutexLock lock(mutex_);
        items.swap(items_);
        if (items.empty() && !closed_) {
          running_ = false;
          return;
        }
        handlers = handlers_.get();
        if (items.empty()) last = std::move(handlers_);  // running_ stays: nothing comes after the end
      }
      for (Item& item : items) handlers->on_item(std::move(item));
      if (last == nullptr) continue;
      last->on_closed(why_);
      return;
    }
  }

  ThreadPool& pool_;
  Mutex mutex_;
  std::unique_ptr<Handlers> handlers_ GUARDED_BY(mutex_);
  std::deque<Item> items_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  absl::Status why_;
};

using CommandInbox = Inbox<std::shared_ptr<const SharedCommand>>;
using EventInbox = Inbox<WorkerEvent>;

class Channel : public WorkerChannel {
 public:
  Channel(std::shared_ptr<CommandInbox> commands, std::shared_ptr<EventInbox> events)
      : commands_(std::move(commands)), events_(std::move(events)) {}
  ~Channel() override { Close(); }

  void Start(Handlers handlers) override {
    events_->Start({std::move(handlers.on_event), std::move(handlers.on_closed)});
  }
  void Send(std::shared_ptr<const SharedCommand> command, When) override { commands_->Put(std::move(command)); }
  size_t queued_bytes() const override { return 0; }
  void Close() override {
    commands_->Close(absl::CancelledError("the controller closed its channel"));
    events_->Close(absl::OkStatus());
  }

 private:
  const std::shared_ptr<CommandInbox> commands_;
  const std::shared_ptr<EventInbox> events_;
};

class Port : public ControllerPort {
 public:
  Port(std::shared_ptr<CommandInbox> commands, std::shared_ptr<EventInbox> events)
      : commands_(std::move(commands)), events_(std::move(events)) {}
  ~Port() override { Close(absl::UnavailableError("the worker is gone")); }

  void Start(Handlers handlers) override {
    commands_->Start({[on_command = std::move(handlers.on_command)](
                          std::shared_ptr<const SharedCommand> command) mutable { on_command(command->command()); },
                      std::move(handlers.on_closed)});
  }
  using ControllerPort::Send;
  void Send(WorkerEvent event, OnSent on_sent) override {
    events_->Put(std::move(event));
    if (on_sent != nullptr) std::move(on_sent)();
  }
  void Close(absl::Status why) override {
    commands_->Close(absl::OkStatus());
    events_->Close(std::move(why));
  }

 private:
  const std::shared_ptr<CommandInbox> commands_;
  const std::shared_ptr<EventInbox> events_;
};

}  // namespace

InProcessLink MakeInProcessLink(ThreadPool& pool) {
  auto commands = std::make_shared<CommandInbox>(pool);
  auto events = std::make_shared<EventInbox>(pool);
  return {std::make_unique<Channel>(commands, events), std::make_shared<Port>(commands, events)};
}

}  // namespace switchtower
