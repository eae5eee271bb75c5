// DriverCaller: calls any function of a driver with arguments made by chance, from their types alone.
//
//   DriverPool pool(context, device, driver);
//   DriverCaller caller(pool, seed);
//   caller.Call(table.pfnCreate);       // a handle that it gives is in the pool now
//
// Handles are alive, null, wild, stale or of another kind; pointers are null or point to room that is
// nearly all zero; numbers are small, or as large as they get. No call moves bytes, so that two
// queues that work on the same memory are no race. Threads: a caller is for one.
#ifndef NPUBANK_TESTS_CONFORMANCE_DRIVER_CALLER_H_
#define NPUBANK_TESTS_CONFORMANCE_DRIVER_CALLER_H_

#include <level_zero/ze_api.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "npubank/tests/conformance/driver/pool.h"

namespace npubank {

class DriverCaller {
 public:
  DriverCaller(DriverPool& pool, uint64_t seed) : pool_(pool), random_(seed) {}

  template <class... Arguments>
  void Call(ze_result_t (*function)(Arguments...)) {
    rooms_.clear();
    rooms_.reserve(sizeof...(Arguments));
    std::tuple<std::decay_t<Arguments>...> arguments{Make<std::decay_t<Arguments>>()...};
    const ze_result_t result = std::apply(function, arguments);
    if (result != ZE_RESULT_SUCCESS) return;
    for (const Room& room : rooms_) {
      const bool came = room.kind != typeid(void) && room.words[0] != room.given;
      if (came && room.words[0] != 0) pool_.Add(room.kind, room.words[0]);
    }
  }

  // Destroys a context that nobody uses, and what is none: memory of one that is gone could not be
  // freed any more.
  void DestroyContext(ze_result_t (*destroy)(ze_context_handle_t));

 private:
  struct Room {
    std::type_index kind;  // of the handle that a call may put there; void: none
    std::vector<uint64_t> words;
    uint64_t given = 0;  // its first word before the call
  };

  // A type of which only the name is declared is what a handle points to.
  template <class T, class = void>
  struct IsComplete : std::false_type {};
  template <class T>
  struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};
  template <class T>
  static constexpr bool IsHandle() {
    if constexpr (!std::is_pointer_v<T>) return false;
    using Pointed = std::remove_cv_t<std::remove_pointer_t<T>>;
    return !std::is_void_v<Pointed> && !IsComplete<Pointed>::value;
  }

  uint64_t Below(uint64_t n) { return random_() % n; }

  template <class T>
  T Make() {
    if constexpr (IsHandle<T>()) {
      return reinterpret_cast<T>(MakeHandle(typeid(T)));
    } else if constexpr (std::is_pointer_v<T>) {
      using Pointed = std::remove_cv_t<std::remove_pointer_t<T>>;
      if constexpr (std::is_void_v<Pointed>) {
        return static_cast<T>(MakeAddress());
      } else if constexpr (IsHandle<Pointed>()) {
        return reinterpret_cast<T>(MakeHandles(typeid(Pointed)));
      } else if constexpr (std::is_same_v<Pointed, void*>) {
        return reinterpret_cast<T>(MakeRoom(typeid(void*)));
      } else {
        return reinterpret_cast<T>(MakeStructure());
      }
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      return static_cast<T>(MakeNumber());
    } else {
      return T{};
    }
  }

  uint64_t MakeHandle(std::type_index kind);
  // Room for a handle to come, or some handles with nothing behind them.
  uint64_t* MakeHandles(std::type_index kind);
  // Zeros: enough for every structure and every list of them.
  uint64_t* MakeRoom(std::type_index kind);
  // With something small where a count is, or the first member after the header.
  uint64_t* MakeStructure();
  void* MakeAddress();
  uint64_t MakeNumber();

  DriverPool& pool_;
  std::mt19937_64 random_;
  std::vector<Room> rooms_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_CONFORMANCE_DRIVER_CALLER_H_
