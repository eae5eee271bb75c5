// NoThreads: while it lives, this process gets no new thread from the system.
//
//   const NoThreads none;
//   EXPECT_TRUE(absl::IsResourceExhausted(StartThread(body).status()));
//
// It asks for stacks larger than the address space, so that pthread_create itself fails (EAGAIN),
// for root too. One at a time; threads that run go on.
#ifndef NPUBANK_TESTS_SUPPORT_SYSTEM_NO_THREADS_H_
#define NPUBANK_TESTS_SUPPORT_SYSTEM_NO_THREADS_H_

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace npubank {

class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &before_);
    pthread_attr_destroy(&attributes);
    SetStackBytes(size_t{1} << 50);
  }
  ~NoThreads() { SetStackBytes(before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static void SetStackBytes(size_t bytes) {
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }

  size_t before_ = 0;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_SUPPORT_SYSTEM_NO_THREADS_H_
