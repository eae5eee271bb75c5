// SocketFault: makes the system fail one of a program's calls on sockets, or a memory file it asks for, or
// what it does with one: seals it (fcntl), maps it (mmap of a file that is shared).
//
//   SocketFault fault(SocketFault::kSend, /*nth=*/3, EIO);   // the third from now, once
//   ...
//   EXPECT_TRUE(fault.happened());
//
// Armed until it goes out of scope, for every thread; one at a time. It defines the functions itself, for
// the program it is linked into.
#ifndef NPUBANK_TESTS_SUPPORT_SYSTEM_SOCKET_FAULTS_H_
#define NPUBANK_TESTS_SUPPORT_SYSTEM_SOCKET_FAULTS_H_

#include <cstdint>

namespace npubank {

class SocketFault {
 public:
  enum Call {
    kSend,
    kReceive,
    kSocket,
    kConnect,
    kAccept,
    kGetOption,
    kSetOption,
    kAsk,  // how much is unread (ioctl)
    kMemoryFile,
    kControl,
    kMap,
    kCalls
  };
  SocketFault(Call call, uint64_t nth, int error, bool forever = false);
  ~SocketFault();
  SocketFault(const SocketFault&) = delete;
  SocketFault& operator=(const SocketFault&) = delete;

  bool happened() const;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_SYSTEM_SOCKET_FAULTS_H_
