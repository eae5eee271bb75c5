#include "npubank/tests/conformance/driver/caller.h"

#include <gtest/gtest.h>

namespace npubank {
namespace {

constexpr uint64_t kWild = 0x1234560;
constexpr size_t kRoomWords = 2048;

}  // namespace

uint64_t DriverCaller::MakeHandle(std::type_index kind) {
  switch (Below(8)) {
    case 0:
      return 0;
    case 1:
      return kWild;
    case 2:
      return pool_.AnyOfAll(random_());
    case 3:
      return pool_.Any(kind, random_()) + Below(3) - 1;  // a neighbour
    default:
      return pool_.Any(kind, random_());
  }
}

uint64_t* DriverCaller::MakeRoom(std::type_index kind) {
  if (Below(8) == 0) return nullptr;
  rooms_.push_back({kind, std::vector<uint64_t>(kRoomWords), 0});
  return rooms_.back().words.data();
}

uint64_t* DriverCaller::MakeStructure() {
  uint64_t* const words = MakeRoom(typeid(void));
  if (words == nullptr) return nullptr;
  constexpr uint64_t kMembers[] = {0, 0, 1, uint64_t{1} << 32, uint64_t{4} << 32, UINT64_MAX};
  words[0] = Below(4);
  words[2] = kMembers[Below(std::size(kMembers))];
  return words;
}

void DriverCaller::DestroyContext(ze_result_t (*destroy)(ze_context_handle_t)) {
  const ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_context_handle_t context = nullptr;
  ASSERT_EQ(zeContextCreate(pool_.driver(), &desc, &context), ZE_RESULT_SUCCESS);
  EXPECT_EQ(destroy(context), ZE_RESULT_SUCCESS);
  EXPECT_EQ(destroy(context), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  pool_.Add(typeid(ze_context_handle_t), reinterpret_cast<uint64_t>(context));
  const uint64_t other = MakeHandle(typeid(ze_context_handle_t));
  if (pool_.Knows(typeid(ze_context_handle_t), other)) return;
  EXPECT_EQ(destroy(reinterpret_cast<ze_context_handle_t>(other)),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

uint64_t* DriverCaller::MakeHandles(std::type_index kind) {
  uint64_t* const words = MakeRoom(kind);
  if (words == nullptr || Below(2) == 0) return words;
  const uint64_t count = Below(4);
  for (uint64_t i = 0; i < count; ++i) words[i] = MakeHandle(kind);
  rooms_.back().given = words[0];
  return words;
}

void* DriverCaller::MakeAddress() {
  switch (Below(4)) {
    case 0:
      return MakeRoom(typeid(void));
    case 1:
      return reinterpret_cast<void*>(kWild);
    case 2:
      return reinterpret_cast<void*>(pool_.Any(typeid(void*), random_()) + Below(4097));
    default:
      return reinterpret_cast<void*>(pool_.Any(typeid(void*), random_()));
  }
}

uint64_t DriverCaller::MakeNumber() {
  constexpr uint64_t kNumbers[] = {
      0, 0, 1, 2, 4, 64, 4096, 65536, UINT32_MAX, SIZE_MAX / 2, SIZE_MAX - 4095, SIZE_MAX};
  return kNumbers[Below(std::size(kNumbers))];
}

}  // namespace npubank
