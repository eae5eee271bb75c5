#include "npubank/bank/service/daemon/connection.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "npubank/lazy_tensor/base/status_macros.h"
#include "npubank/lazy_tensor/base/thread.h"

namespace npubank::service {
namespace {

constexpr std::chrono::milliseconds kBetweenProgress{100};

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Start(Channel channel, Peer peer,
                                                              std::unique_ptr<Desk> desk,
                                                              std::function<void()> when_done) {
  std::unique_ptr<Connection> connection(
      new Connection(std::move(channel), std::move(peer), std::move(desk), std::move(when_done)));
  Connection* const self = connection.get();
  NPUBANK_ASSIGN_OR_RETURN(self->reader_, StartThread([self] {
                             (void)self->Serve();  // what it ended with is the client's business
                             self->End();
                             self->JoinLoad();
                             self->desk_->Clear();
                             self->done_ = true;
                             self->when_done_();
                           }));
  return connection;
}

Connection::~Connection() {
  End();
  if (reader_.joinable()) reader_.join();
}

void Connection::End() {
  ended_ = true;
  cancelled_ = true;
  channel_.End();
}

absl::Status Connection::Serve() {
  while (AwaitMessage()) {
    NPUBANK_ASSIGN_OR_RETURN(Channel::Packet packet, channel_.Receive());
    const absl::Status status = HandleOne(std::move(packet));
    if (status.ok()) continue;
    // Why, if the client still reads.
    if (absl::IsInvalidArgument(status) && !loading_) (void)channel_.Send(Encode(Failed{status}));
    return status;
  }
  return absl::OkStatus();
}

bool Connection::AwaitMessage() const {
  for (;;) {
    pollfd ends[2] = {{channel_.descriptor(), POLLIN, 0}, {peer_.process.get(), POLLIN, 0}};
    const int ready = poll(ends, 2, -1);
    if (ended_ || (ready < 0 && errno != EINTR)) return false;
    if (ready <= 0) continue;
    if (ends[1].revents != 0) return false;
    return true;
  }
}

absl::Status Connection::HandleOne(Channel::Packet packet) {
  NPUBANK_ASSIGN_OR_RETURN(Message message, Decode(packet.bytes));
  if (loading_) {
    if (std::holds_alternative<Cancel>(message)) {
      cancelled_ = true;
      return absl::OkStatus();
    }
    if (!std::holds_alternative<Release>(message)) {
      return absl::InvalidArgumentError(
          absl::StrCat("it broke the rules: a ", NameOf(message), " while it loads"));
    }
    return desk_->Handle(message, std::move(packet.descriptors), {}).status();
  }
  JoinLoad();
  if (std::holds_alternative<Load>(message) && packet.descriptors.empty()) {
    return StartLoad(std::move(message));
  }
  return Answer(desk_->Handle(message, std::move(packet.descriptors), {}));
}

// Nothing else is sent until it is joined.
absl::Status Connection::StartLoad(Message message) {
  cancelled_ = ended_.load();
  loading_ = true;
  absl::StatusOr<std::thread> thread = StartThread([this, message = std::move(message)] {
    auto next = std::chrono::steady_clock::now();
    LoadOptions options;
    options.cancelled = [this] { return cancelled_.load(); };
    options.progress = [&](const LoadProgress& progress) {
      const auto now = std::chrono::steady_clock::now();
      if (now < next) return;
      next = now + kBetweenProgress;
      const Progress now_done{progress.bytes_done, progress.bytes_total,
                              std::string(progress.tensor.substr(0, 256))};
      if (!channel_.Send(Encode(now_done)).ok()) End();
    };
    absl::StatusOr<Desk::Answer> answer = desk_->Handle(message, {}, options);
    loading_ = false;
    if (!Answer(std::move(answer)).ok()) channel_.End();
    desk_->Prepare();
  });
  if (!thread.ok()) {
    loading_ = false;
    return Answer(Desk::Answer{.message = Failed{thread.status()}});
  }
  load_ = *std::move(thread);
  return absl::OkStatus();
}

absl::Status Connection::Answer(absl::StatusOr<Desk::Answer> answer) {
  NPUBANK_RETURN_IF_ERROR(answer.status());
  if (answer->none) return absl::OkStatus();
  std::vector<int> descriptors;
  for (const FileDescriptor& file : answer->descriptors) descriptors.push_back(file.get());
  return channel_.Send(Encode(answer->message), descriptors);
}

void Connection::JoinLoad() {
  if (load_.joinable()) load_.join();
}

}  // namespace npubank::service
