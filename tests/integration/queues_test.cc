// A parallel plan does what it says: its operations run on two queues, in any order that the values
// allow, and every byte is what one queue gives.
#include <gtest/gtest.h>
#include <level_zero/ze_api.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/compiler_stub/blob/submodel_blob.h"
#include "npubank/compiler_stub/compile.h"
#include "npubank/compiler_stub/planner/chains.h"
#include "npubank/compiler_stub/views/schedule_view.h"
#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/runtime/level_zero/buffer.h"
#include "npubank/runtime/level_zero/commands.h"
#include "npubank/runtime/level_zero/graph.h"
#include "npubank/tests/support/npu_fixture.h"
#include "npubank/tests/support/test_model.h"

namespace npubank {
namespace {

using level_zero::Buffer;
using level_zero::Graph;

// Memory for every argument of a function, filled with the same numbers each time.
class Arguments {
 public:
  Arguments(const std::shared_ptr<level_zero::Device>& device, const Function& function) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> number(-0.5f, 0.5f);
    for (const FunctionArgument& argument : function.arguments) {
      if (argument.over >= 0) {
        at_.push_back(at_[argument.over]);
        continue;
      }
      auto buffer = Buffer::AllocateDevice(device, argument.type.bytes(), argument.name);
      EXPECT_TRUE(buffer.ok()) << buffer.status();
      std::memset(buffer->address(), 0, buffer->size());
      auto* values = static_cast<float*>(buffer->address());
      if (argument.type.element() == ElementType::kF32)
        for (size_t i = 0; i < buffer->size() / sizeof(float); ++i) values[i] = number(random);
      if (argument.name == "span") {  // 8 tokens at position 3
        const int32_t span[] = {3, 8};
        std::memcpy(buffer->address(), span, sizeof(span));
      }
      if (argument.name == "scratch") scratch_ = static_cast<std::byte*>(buffer->address());
      at_.push_back(static_cast<std::byte*>(buffer->address()));
      names_.push_back(argument.name);
      buffers_.push_back(*std::move(buffer));
    }
  }

  void* at(size_t argument) const { return at_[argument]; }
  void* PlaceOf(const FunctionValue& value) const {
    return value.storage == Storage::kArgument ? at_[value.place] : scratch_ + value.place;
  }
  // All that is left in arguments afterwards, scratch aside.
  std::map<std::string, std::string> Bytes() const {
    std::map<std::string, std::string> bytes;
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (names_[i] != "scratch")
        bytes[names_[i]].assign(static_cast<const char*>(buffers_[i].address()),
                                buffers_[i].size());
    return bytes;
  }

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::string> names_;
  std::vector<std::byte*> at_;  // by argument
  std::byte* scratch_ = nullptr;
};

// Operation `number` of `function` alone: a function whose arguments are the operation's values.
// `values` says which.
Function OneOperation(const Function& function, size_t number, const Arguments& arguments,
                      std::vector<uint32_t>* values) {
  FunctionOp op = function.ops[number];
  Function one;
  one.name = absl::StrCat("op", number);
  const auto place = [&](uint32_t value) { return arguments.PlaceOf(function.values[value]); };
  for (uint32_t& input : op.inputs) {
    const auto next = static_cast<uint32_t>(one.arguments.size());
    const TensorType& type = function.values[input].type;
    one.arguments.push_back({absl::StrCat("input", next), ArgumentKind::kInput, type});
    one.values.push_back({absl::StrCat("input", next), type, Storage::kArgument, next});
    values->push_back(input);
    input = next;
  }
  const auto next = static_cast<uint32_t>(one.arguments.size());
  FunctionArgument output = {"output", ArgumentKind::kOutput, function.values[op.output].type};
  for (uint32_t i = 0; i < next; ++i)
    if (place((*values)[i]) == place(op.output)) output.over = static_cast<int32_t>(i);
  const bool in_state = op.kind == OpKind::kCacheWrite;
  one.values.push_back({"output", output.type, Storage::kArgument,
                        in_state ? static_cast<uint64_t>(output.over) : next});
  if (!in_state) {
    values->push_back(op.output);
    one.arguments.push_back(std::move(output));
  }
  op.output = next;
  one.ops.push_back(std::move(op));
  return one;
}

// One event for each operation, destroyed with this.
class Events {
 public:
  Events(level_zero::Device& device, uint32_t count) {
    ze_event_pool_desc_t desc = {ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, 0, count};
    ze_device_handle_t handle = device.device();
    EXPECT_EQ(zeEventPoolCreate(device.context(), &desc, 1, &handle, &pool_), ZE_RESULT_SUCCESS);
    for (uint32_t i = 0; i < count; ++i) {
      ze_event_desc_t event = {ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, i, 0, 0};
      events_.push_back(nullptr);
      EXPECT_EQ(zeEventCreate(pool_, &event, &events_.back()), ZE_RESULT_SUCCESS);
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    for (ze_event_handle_t event : events_) EXPECT_EQ(zeEventDestroy(event), ZE_RESULT_SUCCESS);
    EXPECT_EQ(zeEventPoolDestroy(pool_), ZE_RESULT_SUCCESS);
  }
  ze_event_handle_t operator[](size_t i) const { return events_[i]; }

 private:
  ze_event_pool_handle_t pool_ = nullptr;
  std::vector<ze_event_handle_t> events_;
};

class QueuesTest : public NpuTest {
 protected:
  // The decoder layer of a model, its plan made for any order.
  static Function ParallelLayer(const Checkpoint& checkpoint, AttentionForm attention) {
    CompileOptions options;
    options.name = "prefill";
    options.chunk = 8;
    options.context = 64;
    options.weights = WeightFormat::kF32;
    options.attention = attention;
    options.schedule = Schedule::kParallel;
    auto blob = Compile(checkpoint, options);
    EXPECT_TRUE(blob.ok()) << blob.status();
    return ReadSubmodelBlob(*blob)->functions[1].function;
  }

  void RunWhole(const Function& function, const Arguments& arguments) {
    auto queue = level_zero::CommandQueue::Create(place_.device);
    auto list = level_zero::CommandList::Create(*queue);
    auto graph = Graph::Create(place_.device, WriteFunctionBlob(function), function.name);
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (uint32_t i = 0; i < function.arguments.size(); ++i)
      ASSERT_TRUE(graph->SetArgument(i, arguments.at(i)).ok());
    ASSERT_TRUE(list->AppendGraph(graph->handle()).ok());
    ASSERT_TRUE(list->Close().ok());
    ASSERT_TRUE(queue->Submit(*list).ok());
    ASSERT_TRUE(list->Wait().ok());
  }

  // Chain c on queue c % 2. Operations wait for the makers of their inputs and for nothing else.
  void RunOnTwoQueues(const Function& function, const Arguments& arguments) {
    const PlanGraph plan = FunctionGraph(function);
    const std::vector<int> makers = *CheckGraph(plan);
    const Chains chains = *FindChains(plan);
    ASSERT_GT(chains.count, 1);
    Events events(*place_.device, static_cast<uint32_t>(function.ops.size()));
    std::vector<Graph> graphs;
    ze_command_queue_handle_t queues[2];
    ze_command_list_handle_t lists[2];
    ze_command_queue_desc_t queue_desc = {};
    queue_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
    ze_command_list_desc_t list_desc = {};
    list_desc.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC;
    const level_zero::Device& npu = *place_.device;
    for (int q = 0; q < 2; ++q) {
      ASSERT_EQ(zeCommandQueueCreate(npu.context(), npu.device(), &queue_desc, &queues[q]),
                ZE_RESULT_SUCCESS);
      ASSERT_EQ(zeCommandListCreate(npu.context(), npu.device(), &list_desc, &lists[q]),
                ZE_RESULT_SUCCESS);
    }
    for (size_t i = 0; i < function.ops.size(); ++i) {
      std::vector<uint32_t> values;
      const Function one = OneOperation(function, i, arguments, &values);
      auto graph = Graph::Create(place_.device, WriteFunctionBlob(one), one.name);
      ASSERT_TRUE(graph.ok()) << graph.status();
      for (uint32_t v = 0; v < values.size(); ++v)
        ASSERT_TRUE(graph->SetArgument(v, arguments.PlaceOf(function.values[values[v]])).ok());
      std::vector<ze_event_handle_t> wait;
      for (int input : plan.ops[i].inputs)
        if (makers[input] != kNoOp) wait.push_back(events[makers[input]]);
      ASSERT_EQ(npu.graphs()->pfnAppendGraphExecute(
                    lists[chains.chain_of[i] % 2], graph->handle(), nullptr, events[i],
                    static_cast<uint32_t>(wait.size()), wait.empty() ? nullptr : wait.data()),
                ZE_RESULT_SUCCESS);
      graphs.push_back(*std::move(graph));
    }
    // The second first: it has to wait for the other.
    for (int q : {1, 0}) {
      EXPECT_EQ(zeCommandListClose(lists[q]), ZE_RESULT_SUCCESS);
      EXPECT_EQ(zeCommandQueueExecuteCommandLists(queues[q], 1, &lists[q], nullptr),
                ZE_RESULT_SUCCESS);
    }
    for (int q : {0, 1})
      EXPECT_EQ(zeCommandQueueSynchronize(queues[q], UINT64_MAX), ZE_RESULT_SUCCESS);
    for (int q : {0, 1}) {
      EXPECT_EQ(zeCommandListDestroy(lists[q]), ZE_RESULT_SUCCESS);
      EXPECT_EQ(zeCommandQueueDestroy(queues[q]), ZE_RESULT_SUCCESS);
    }
  }
};

TEST_F(QueuesTest, TheChainsOfADecoderLayerRunOnTwoQueuesAndGiveTheSameBytes) {
  const TestModel model;
  const auto checkpoint = *Checkpoint::Open(model.folder());
  for (AttentionForm attention : {AttentionForm::kWhole, AttentionForm::kPerHead}) {
    const Function layer = ParallelLayer(*checkpoint, attention);
    const Arguments whole(place_.device, layer);
    const std::map<std::string, std::string> before = whole.Bytes();
    RunWhole(layer, whole);
    const std::map<std::string, std::string> expected = whole.Bytes();
    EXPECT_NE(expected, before);
    for (int round = 0; round < 20; ++round) {
      const Arguments apart(place_.device, layer);
      RunOnTwoQueues(layer, apart);
      ASSERT_EQ(apart.Bytes(), expected) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace npubank
