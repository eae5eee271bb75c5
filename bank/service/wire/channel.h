// Channel: one end of a connection between two processes: whole messages, and open files with them.
//
//   NPUBANK_ASSIGN_OR_RETURN(Channel channel, Channel::Connect("/run/user/1000/npubank/socket"));
//   NPUBANK_RETURN_IF_ERROR(channel.Send(bytes, {file.get()}));
//   NPUBANK_ASSIGN_OR_RETURN(Channel::Packet packet, channel.Receive());
//   Use(packet.bytes, packet.descriptors[0]);
//
// A Unix socket of type SOCK_SEQPACKET. A message of more than kPacketBytes travels as a sealed memfd,
// which whoever receives it checks (sealed, of the size that was announced, not above kMostBytes)
// before it reads a byte. What is received is owned at once: a message that is refused, whatever is
// wrong with it, leaves no descriptor open.
//
// Descriptors in flight count against the sender's limit, for all of its user's processes: so a
// message with descriptors is sent only when the peer has read all that was sent before. A peer that
// reads nothing costs the sender its patience, once, and then its connection.
//
// Ownership: moved; closes the socket. Threads: one sends and one receives at a time; End from any.
// Errors: Unavailable when the peer is gone; DeadlineExceeded when it does not read; InvalidArgument
// for a message that is empty, cut, oversized, or whose descriptors did not all arrive (at a limit of
// open files, too): drop the connection, nothing after that means anything. Send refuses too many
// descriptors or bytes itself, InvalidArgument.
// Cost: 60 to 90 us for a message and its answer; one that goes as a memfd, a copy more.
#ifndef NPUBANK_BANK_SERVICE_WIRE_CHANNEL_H_
#define NPUBANK_BANK_SERVICE_WIRE_CHANNEL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"

namespace npubank::service {

class Channel {
 public:
  // The kernel's 253, less one for a memfd of the message.
  static constexpr size_t kMostDescriptors = 252;
  static constexpr uint64_t kPacketBytes = 128 << 10;
  static constexpr uint64_t kMostBytes = 64 << 20;

  struct Packet {
    std::string bytes;
    std::vector<FileDescriptor> descriptors;
  };

  Channel() = default;  // of nothing
  // A connected socket of type SOCK_SEQPACKET. `patience`: how long the peer may leave what it was
  // sent unread.
  explicit Channel(FileDescriptor socket,
                   std::chrono::milliseconds patience = std::chrono::seconds(10));
  // NotFound where there is no socket, Unavailable where nobody listens to it, DeadlineExceeded where so many
  // wait already that there is no place in the queue within `patience`.
  static absl::StatusOr<Channel> Connect(
      const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(10));
  // Both ends.
  static absl::StatusOr<std::pair<Channel, Channel>> Pair();

  // The descriptors stay the caller's.
  absl::Status Send(absl::string_view bytes, absl::Span<const int> descriptors = {});
  // Waits for the next one.
  absl::StatusOr<Packet> Receive();
  // From now on both ends have reached their end: who waits in Receive comes back.
  void End();

  bool is_open() const { return socket_.is_open(); }
  // For poll(2); not the caller's to close.
  int descriptor() const { return socket_.get(); }

 private:
  absl::Status SendNow(absl::string_view bytes, absl::Span<const int> descriptors);
  // Until the peer has read everything.
  absl::Status AwaitRead() const;

  FileDescriptor socket_;
  std::chrono::milliseconds patience_{0};
  std::unique_ptr<char[]> room_;  // for the message that comes next: made once, of kPacketBytes
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_WIRE_CHANNEL_H_
