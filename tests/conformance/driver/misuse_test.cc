// Wrong handles and null pointers: the documented error, never a crash.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

class MisuseTest : public DriverTest {
 protected:
  // A value that never was a handle.
  template <class Handle>
  static Handle Wild() {
    return reinterpret_cast<Handle>(uintptr_t{0x1234560});
  }

  // Calls with null, with a wild handle and with one that is destroyed already.
  template <class Handle, class Call>
  static void ExpectInvalidHandle(Handle destroyed, Call call) {
    for (Handle handle : {Handle{nullptr}, Wild<Handle>(), destroyed}) {
      EXPECT_EQ(call(handle), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    }
  }

  ze_context_handle_t DestroyedContext() {
    const ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
    ze_context_handle_t context = nullptr;
    EXPECT_EQ(zeContextCreate(driver_, &desc, &context), ZE_RESULT_SUCCESS);
    EXPECT_EQ(zeContextDestroy(context), ZE_RESULT_SUCCESS);
    return context;
  }
};

TEST_F(MisuseTest, ContextsThatAreNot) {
  void* memory = nullptr;
  const ze_host_mem_alloc_desc_t host_desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  const ze_device_mem_alloc_desc_t device_desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr,
                                                  0, 0};
  const ze_event_pool_desc_t pool_desc = {ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, 0, 1};
  ze_command_queue_desc_t queue_desc = {};
  queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  const ze_command_list_desc_t list_desc = {ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_event_pool_handle_t pool = nullptr;
  ze_command_queue_handle_t queue = nullptr;
  ze_command_list_handle_t list = nullptr;
  level_zero::GraphMemoryQuery query;
  const ze_context_handle_t destroyed = DestroyedContext();
  ExpectInvalidHandle(destroyed, [&](auto c) { return zeContextDestroy(c); });
  ExpectInvalidHandle(destroyed, [&](auto c) { return zeContextGetStatus(c); });
  ExpectInvalidHandle(destroyed,
                      [&](auto c) { return zeMemAllocHost(c, &host_desc, 1, 0, &memory); });
  ExpectInvalidHandle(
      destroyed, [&](auto c) { return zeMemAllocDevice(c, &device_desc, 1, 0, device_, &memory); });
  ExpectInvalidHandle(destroyed, [&](auto c) { return zeMemFree(c, &memory); });
  ExpectInvalidHandle(
      destroyed, [&](auto c) { return zeCommandQueueCreate(c, device_, &queue_desc, &queue); });
  ExpectInvalidHandle(destroyed,
                      [&](auto c) { return zeCommandListCreate(c, device_, &list_desc, &list); });
  ExpectInvalidHandle(destroyed,
                      [&](auto c) { return zeEventPoolCreate(c, &pool_desc, 0, nullptr, &pool); });
  ExpectInvalidHandle(destroyed, [&](auto c) {
    return graphs_->pfnQueryContextMemory(c, level_zero::kMemoryTypeDdr, &query);
  });
}

TEST_F(MisuseTest, DevicesThatAreNot) {
  void* memory = nullptr;
  const ze_device_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  ze_device_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  ExpectInvalidHandle(Wild<ze_device_handle_t>(),
                      [&](auto d) { return zeMemAllocDevice(context_, &desc, 1, 0, d, &memory); });
  ExpectInvalidHandle(Wild<ze_device_handle_t>(),
                      [&](auto d) { return zeDeviceGetProperties(d, &properties); });
}

TEST_F(MisuseTest, QueuesListsAndFencesThatAreNot) {
  ze_command_list_handle_t list = NewList();
  ExpectInvalidHandle(Wild<ze_command_list_handle_t>(),
                      [&](auto l) { return zeCommandListClose(l); });
  ExpectInvalidHandle(Wild<ze_command_list_handle_t>(),
                      [&](auto l) { return zeCommandListReset(l); });
  ExpectInvalidHandle(Wild<ze_command_list_handle_t>(),
                      [&](auto l) { return zeCommandListDestroy(l); });
  ExpectInvalidHandle(Wild<ze_command_list_handle_t>(),
                      [&](auto l) { return zeCommandListAppendBarrier(l, nullptr, 0, nullptr); });
  ExpectInvalidHandle(Wild<ze_command_list_handle_t>(), [&](auto l) { return Submit(l, nullptr); });
  ExpectInvalidHandle(Wild<ze_command_queue_handle_t>(), [&](auto q) {
    return zeCommandQueueExecuteCommandLists(q, 1, &list, nullptr);
  });
  ExpectInvalidHandle(Wild<ze_command_queue_handle_t>(),
                      [&](auto q) { return zeCommandQueueSynchronize(q, 0); });
  ExpectInvalidHandle(Wild<ze_command_queue_handle_t>(),
                      [&](auto q) { return zeCommandQueueDestroy(q); });
  ExpectInvalidHandle(Wild<ze_fence_handle_t>(),
                      [&](auto f) { return zeFenceHostSynchronize(f, 0); });
  ExpectInvalidHandle(Wild<ze_fence_handle_t>(), [&](auto f) { return zeFenceReset(f); });
  ExpectInvalidHandle(Wild<ze_fence_handle_t>(), [&](auto f) { return zeFenceQueryStatus(f); });
  ExpectInvalidHandle(Wild<ze_fence_handle_t>(), [&](auto f) { return zeFenceDestroy(f); });
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(Submit(list, Wild<ze_fence_handle_t>()), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

TEST_F(MisuseTest, EventsAndPoolsThatAreNot) {
  const ze_event_desc_t desc = {ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 0, 0, 0};
  ze_event_handle_t event = nullptr;
  ExpectInvalidHandle(Wild<ze_event_pool_handle_t>(),
                      [&](auto p) { return zeEventCreate(p, &desc, &event); });
  ExpectInvalidHandle(Wild<ze_event_pool_handle_t>(),
                      [&](auto p) { return zeEventPoolDestroy(p); });
  ExpectInvalidHandle(Wild<ze_event_handle_t>(), [&](auto e) { return zeEventHostSignal(e); });
  ExpectInvalidHandle(Wild<ze_event_handle_t>(), [&](auto e) { return zeEventHostReset(e); });
  ExpectInvalidHandle(Wild<ze_event_handle_t>(), [&](auto e) { return zeEventQueryStatus(e); });
  ExpectInvalidHandle(Wild<ze_event_handle_t>(),
                      [&](auto e) { return zeEventHostSynchronize(e, 0); });
  ExpectInvalidHandle(Wild<ze_event_handle_t>(), [&](auto e) { return zeEventDestroy(e); });
  ze_event_handle_t wild = Wild<ze_event_handle_t>();
  const ze_command_list_handle_t list = NewList();
  EXPECT_EQ(zeCommandListAppendBarrier(list, wild, 0, nullptr),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  EXPECT_EQ(zeCommandListAppendBarrier(list, nullptr, 1, &wild),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  EXPECT_EQ(zeCommandListAppendBarrier(list, nullptr, 1, nullptr), ZE_RESULT_ERROR_INVALID_SIZE);
}

TEST_F(MisuseTest, EventIndexesOutsideOfThePoolOrTakenAreInvalid) {
  const ze_event_pool_desc_t pool_desc = {ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, 0, 2};
  ze_event_pool_handle_t pool = nullptr;
  ASSERT_EQ(zeEventPoolCreate(context_, &pool_desc, 0, nullptr, &pool), ZE_RESULT_SUCCESS);
  ze_event_desc_t desc = {ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 2, 0, 0};
  ze_event_handle_t event = nullptr;
  EXPECT_EQ(zeEventCreate(pool, &desc, &event), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  desc.index = 1;
  ASSERT_EQ(zeEventCreate(pool, &desc, &event), ZE_RESULT_SUCCESS);
  ze_event_handle_t again = nullptr;
  EXPECT_EQ(zeEventCreate(pool, &desc, &again), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(zeEventDestroy(event), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeEventCreate(pool, &desc, &again), ZE_RESULT_SUCCESS) << "the index is free again";
  EXPECT_EQ(zeEventPoolDestroy(pool), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
  ASSERT_EQ(zeEventDestroy(again), ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeEventPoolDestroy(pool), ZE_RESULT_SUCCESS);
}

TEST_F(MisuseTest, ParentsWithLiveChildrenAreInUse) {
  NewFence();
  EXPECT_EQ(zeCommandQueueDestroy(queue_), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
  EXPECT_EQ(zeContextDestroy(context_), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
}

TEST_F(MisuseTest, AFenceOfAnotherQueueIsNotOfThisOne) {
  ze_command_queue_desc_t queue_desc = {};
  queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  ze_command_queue_handle_t other = nullptr;
  ASSERT_EQ(zeCommandQueueCreate(context_, device_, &queue_desc, &other), ZE_RESULT_SUCCESS);
  ze_command_list_handle_t list = NewList();
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeCommandQueueExecuteCommandLists(other, 1, &list, NewFence()),
            ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
  ASSERT_EQ(zeCommandQueueDestroy(other), ZE_RESULT_SUCCESS);
}

TEST_F(MisuseTest, NullPointersAreRefused) {
  EXPECT_EQ(zeDeviceGetProperties(device_, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeDeviceGet(driver_, nullptr, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeContextCreate(driver_, nullptr, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeMemAllocHost(context_, nullptr, 1, 0, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeMemFree(context_, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeMemGetAllocProperties(context_, nullptr, nullptr, nullptr),
            ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeFenceCreate(queue_, nullptr, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeCommandQueueExecuteCommandLists(queue_, 1, nullptr, nullptr),
            ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  EXPECT_EQ(zeCommandListAppendMemoryCopy(NewList(), nullptr, nullptr, 1, nullptr, 0, nullptr),
            ZE_RESULT_ERROR_INVALID_NULL_POINTER);
}

TEST_F(MisuseTest, OnlyTheStartOfAnAllocationCanBeFreedAndOnlyOnce) {
  uint8_t* const memory = Device(8192);
  EXPECT_EQ(zeMemFree(context_, memory + 4096), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  Free(memory);
  EXPECT_EQ(zeMemFree(context_, memory), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(MisuseTest, GraphsThatAreNot) {
  level_zero::GraphProperties properties;
  const auto wild = Wild<level_zero::GraphHandle>();
  ExpectInvalidHandle(wild, [&](auto g) { return graphs_->pfnDestroy(g); });
  ExpectInvalidHandle(wild, [&](auto g) { return graphs_->pfnGetProperties(g, &properties); });
  ExpectInvalidHandle(wild,
                      [&](auto g) { return graphs_->pfnSetArgumentValue(g, 0, &properties); });
  ExpectInvalidHandle(wild, [&](auto g) {
    return graphs_->pfnAppendGraphExecute(NewList(), g, nullptr, nullptr, 0, nullptr);
  });
}

TEST_F(MisuseTest, AStaleHandleNeverReachesWhatTookItsPlace) {
  const ze_fence_desc_t fence_desc = {ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  const ze_command_list_desc_t list_desc = {ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  const ze_context_desc_t context_desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  for (int i = 0; i < 1000; ++i) {
    ze_fence_handle_t stale_fence = nullptr;
    ASSERT_EQ(zeFenceCreate(queue_, &fence_desc, &stale_fence), ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeFenceDestroy(stale_fence), ZE_RESULT_SUCCESS);
    ze_command_list_handle_t stale_list = nullptr;
    ASSERT_EQ(zeCommandListCreate(context_, device_, &list_desc, &stale_list), ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeCommandListDestroy(stale_list), ZE_RESULT_SUCCESS);
    const ze_context_handle_t stale_context = DestroyedContext();

    ze_fence_handle_t fence = nullptr;
    ASSERT_EQ(zeFenceCreate(queue_, &fence_desc, &fence), ZE_RESULT_SUCCESS);
    ze_command_list_handle_t list = nullptr;
    ASSERT_EQ(zeCommandListCreate(context_, device_, &list_desc, &list), ZE_RESULT_SUCCESS);
    ze_context_handle_t context = nullptr;
    ASSERT_EQ(zeContextCreate(driver_, &context_desc, &context), ZE_RESULT_SUCCESS);

    ASSERT_EQ(zeFenceDestroy(stale_fence), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    ASSERT_EQ(zeCommandListDestroy(stale_list), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    ASSERT_EQ(zeContextDestroy(stale_context), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    ASSERT_EQ(zeFenceDestroy(fence), ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeCommandListDestroy(list), ZE_RESULT_SUCCESS);
    ASSERT_EQ(zeContextDestroy(context), ZE_RESULT_SUCCESS);
  }
}

TEST_F(MisuseTest, AHandleOfOneKindIsNoneOfAnother) {
  const auto fence = reinterpret_cast<uint64_t>(NewFence());
  EXPECT_EQ(zeCommandListClose(reinterpret_cast<ze_command_list_handle_t>(fence)),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  EXPECT_EQ(zeEventHostSignal(reinterpret_cast<ze_event_handle_t>(fence)),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  EXPECT_EQ(zeContextDestroy(reinterpret_cast<ze_context_handle_t>(fence)),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  const auto list = reinterpret_cast<uint64_t>(NewList());
  EXPECT_EQ(zeFenceReset(reinterpret_cast<ze_fence_handle_t>(list)),
            ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

}  // namespace
}  // namespace npubank
