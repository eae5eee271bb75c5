// The graph extension: compiled functions executed with arguments bound per call.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "npubank/compiler_stub/blob/function_blob.h"
#include "npubank/tests/conformance/driver/fixture.h"

namespace npubank {
namespace {

using level_zero::GraphArgumentProperties;
using level_zero::GraphDesc;
using level_zero::GraphHandle;

TensorType Type(ElementType element, std::vector<int64_t> dims) {
  return *TensorType::Create(element, *Shape::Create(dims));
}

// A function by its arguments and operations; values are the arguments, and scratch.
struct FunctionBuilder {
  Function function;

  uint32_t Argument(const std::string& name, ArgumentKind kind, TensorType type) {
    function.arguments.push_back({name, kind, type});
    function.values.push_back({name, type, Storage::kArgument, function.arguments.size() - 1});
    return static_cast<uint32_t>(function.values.size() - 1);
  }
  uint32_t Input(const std::string& name, TensorType type) {
    return Argument(name, ArgumentKind::kInput, type);
  }
  uint32_t Output(const std::string& name, TensorType type) {
    return Argument(name, ArgumentKind::kOutput, type);
  }
  FunctionOp& Op(OpKind kind, std::vector<uint32_t> inputs, uint32_t output) {
    FunctionOp op;
    op.kind = kind;
    op.name = "op" + std::to_string(function.ops.size());
    op.inputs = std::move(inputs);
    op.output = output;
    function.ops.push_back(op);
    return function.ops.back();
  }
};

// out[2,3] = x[2,4] * weight[4,3]
std::string MatMulBlob() {
  FunctionBuilder b;
  b.function.name = "matmul";
  const uint32_t x = b.Input("x", Type(ElementType::kF32, {2, 4}));
  const uint32_t weight = b.Input("weight", Type(ElementType::kF32, {4, 3}));
  const uint32_t out = b.Output("out", Type(ElementType::kF32, {2, 3}));
  b.Op(OpKind::kMatMul, {x, weight}, out);
  return WriteFunctionBlob(b.function);
}

// Writes rows[2,1] into cache[4,1] and selects the last row that counts into last[1,1].
std::string CacheBlob() {
  FunctionBuilder b;
  b.function.name = "cache";
  const uint32_t rows = b.Input("rows", Type(ElementType::kF32, {2, 1}));
  const uint32_t span = b.Input("span", Type(ElementType::kI32, {2}));
  const uint32_t cache = b.Input("cache", Type(ElementType::kF32, {4, 1}));
  const uint32_t last = b.Output("last", Type(ElementType::kF32, {1, 1}));
  b.Op(OpKind::kSelectLast, {rows, span}, last);
  FunctionValue written = b.function.values[cache];
  written.name = "written";
  b.function.values.push_back(written);
  b.Op(OpKind::kCacheWrite, {rows, cache, span},
       static_cast<uint32_t>(b.function.values.size() - 1));
  return WriteFunctionBlob(b.function);
}

std::string EmbedBlob() {
  FunctionBuilder b;
  b.function.name = "embed";
  const uint32_t ids = b.Input("ids", Type(ElementType::kI32, {2}));
  const uint32_t table = b.Input("table", Type(ElementType::kF32, {3, 2}));
  const uint32_t out = b.Output("out", Type(ElementType::kF32, {2, 2}));
  b.Op(OpKind::kEmbed, {ids, table}, out);
  return WriteFunctionBlob(b.function);
}

class GraphTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!IsSoftwareNpu()) GTEST_SKIP() << "another driver runs another compiler's functions";
  }
  void TearDown() override {
    for (GraphHandle graph : made_) EXPECT_EQ(graphs_->pfnDestroy(graph), ZE_RESULT_SUCCESS);
    for (uint8_t* memory : memory_) Free(memory);
    DriverTest::TearDown();
  }

  ze_result_t TryCreate(const std::string& blob, GraphHandle* graph, uint32_t format = 1) {
    GraphDesc desc;
    desc.format = format;
    desc.inputSize = blob.size();
    desc.pInput = reinterpret_cast<const uint8_t*>(blob.data());
    return graphs_->pfnCreate(context_, device_, &desc, graph);
  }
  GraphHandle NewGraph(const std::string& blob) {
    GraphHandle graph = nullptr;
    EXPECT_EQ(TryCreate(blob, &graph), ZE_RESULT_SUCCESS);
    made_.push_back(graph);
    return graph;
  }

  // Device memory with these numbers in it; freed by TearDown.
  template <class T>
  T* Put(const std::vector<T>& numbers) {
    auto* const memory = Device(numbers.size() * sizeof(T));
    memory_.push_back(memory);
    std::memcpy(memory, numbers.data(), numbers.size() * sizeof(T));
    return reinterpret_cast<T*>(memory);
  }

  void Bind(GraphHandle graph, const std::vector<const void*>& arguments) {
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, i, arguments[i]), ZE_RESULT_SUCCESS) << i;
    }
  }
  ze_result_t Append(ze_command_list_handle_t list, GraphHandle graph) {
    return graphs_->pfnAppendGraphExecute(list, graph, nullptr, nullptr, 0, nullptr);
  }
  ze_result_t Run(GraphHandle graph) {
    const ze_command_list_handle_t list = NewList();
    EXPECT_EQ(Append(list, graph), ZE_RESULT_SUCCESS);
    return Execute(list);
  }

  std::vector<GraphHandle> made_;
  std::vector<uint8_t*> memory_;
};

TEST_F(GraphTest, SaysItsArgumentsInputsFirst) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  level_zero::GraphProperties properties;
  ASSERT_EQ(graphs_->pfnGetProperties(graph, &properties), ZE_RESULT_SUCCESS);
  ASSERT_EQ(properties.numGraphArgs, 3u);
  GraphArgumentProperties argument;
  ASSERT_EQ(graphs_->pfnGetArgumentProperties(graph, 1, &argument), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::string(argument.name), "weight");
  EXPECT_EQ(argument.type, level_zero::kGraphArgumentInput);
  EXPECT_EQ(argument.dims[0], 4u);
  EXPECT_EQ(argument.dims[1], 3u);
  EXPECT_EQ(argument.dims[2], 1u);
  EXPECT_EQ(argument.devicePrecision, level_zero::GraphPrecision::kF32);
  ASSERT_EQ(graphs_->pfnGetArgumentProperties(graph, 2, &argument), ZE_RESULT_SUCCESS);
  EXPECT_EQ(argument.type, level_zero::kGraphArgumentOutput);
  EXPECT_EQ(graphs_->pfnGetArgumentProperties(graph, 3, &argument),
            ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(GraphTest, GivesItsBlobBack) {
  const std::string blob = MatMulBlob();
  const GraphHandle graph = NewGraph(blob);
  size_t size = 0;
  ASSERT_EQ(graphs_->pfnGetNativeBinary(graph, &size, nullptr), ZE_RESULT_SUCCESS);
  std::string back(size, '\0');
  ASSERT_EQ(graphs_->pfnGetNativeBinary(graph, &size, reinterpret_cast<uint8_t*>(back.data())),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(back, blob);
}

TEST_F(GraphTest, AnythingButAFunctionIsAnInvalidNativeBinary) {
  GraphHandle graph = nullptr;
  EXPECT_EQ(TryCreate("not a function", &graph), ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
  EXPECT_EQ(TryCreate(MatMulBlob(), &graph, 2), ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
  std::string cut = MatMulBlob();
  cut.resize(cut.size() / 2);
  EXPECT_EQ(TryCreate(cut, &graph), ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
}

TEST_F(GraphTest, SaysWhichVersionItIs) {
  level_zero::DeviceGraphProperties properties;
  ASSERT_EQ(graphs_->pfnDeviceGetGraphProperties(device_, &properties), ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.graphExtensionVersion, level_zero::kGraphExtensionVersion);
  EXPECT_EQ(properties.graphFormatsSupported, level_zero::kGraphFormatNative);
}

TEST_F(GraphTest, ComputesWhatTheFunctionSays) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  const float* const x = Put<float>({1, 2, 3, 4, 5, 6, 7, 8});
  const float* const weight = Put<float>({1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0});
  float* const out = Put<float>({0, 0, 0, 0, 0, 0});
  Bind(graph, {x, weight, out});
  ASSERT_EQ(Run(graph), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{4, 6, 3, 12, 14, 11}));
}

TEST_F(GraphTest, OneListRunsOneGraphWithManyClosures) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  const float* const x = Put<float>({1, 1, 1, 1, 1, 1, 1, 1});
  const ze_command_list_handle_t list = NewList();
  std::vector<const float*> outs;
  for (float number : {1.0f, 2.0f, 3.0f}) {
    const float* const weight = Put(std::vector<float>(12, number));
    outs.push_back(Put(std::vector<float>(6)));
    Bind(graph, {x, weight, outs.back()});
    ASSERT_EQ(Append(list, graph), ZE_RESULT_SUCCESS) << "arguments are captured here";
  }
  ASSERT_EQ(Execute(list), ZE_RESULT_SUCCESS);
  for (size_t i = 0; i < outs.size(); ++i) {
    EXPECT_EQ(outs[i][5], 4 * static_cast<float>(i + 1));
  }
}

TEST_F(GraphTest, ArgumentsLieInLevelZeroMemoryWithEnoughRoom) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  std::vector<float> plain(64);
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, plain.data()), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  uint8_t* const page = Device(128 + 32);  // an argument's 32 bytes fit at 128 and not beyond
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, page + 128), ZE_RESULT_SUCCESS);
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, page + 192), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 3, page), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  Free(page);
  uint8_t* const tight = Device(128 + 31);
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, tight + 128), ZE_RESULT_ERROR_INVALID_ARGUMENT)
      << "its page goes on, it does not";
  Free(tight);
}

TEST_F(GraphTest, ArgumentsThatAreNotAlignedAsSwitchedAreRefused) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  uint8_t* const memory = Device(3 * 4096);
  for (const auto& [name, alignment] : std::vector<std::pair<std::string, size_t>>{
           {"", 64}, {"1", 1}, {"16", 16}, {"64", 64}, {"4096", 4096}}) {
    if (!name.empty()) SetSwitches({{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", name}});
    for (const size_t offset : {2, 4, 8, 16, 32, 64, 128, 2048, 4096}) {
      const bool fits = offset % alignment == 0 && offset % sizeof(float) == 0;
      EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, memory + offset),
                fits ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT)
          << name << " " << offset;
    }
  }
  SetSwitches({{"NPUBANK_NPU_ARGUMENT_ALIGNMENT", "32"}});
  EXPECT_EQ(graphs_->pfnSetArgumentValue(graph, 0, memory + 32), ZE_RESULT_ERROR_INVALID_ARGUMENT)
      << "not one of the values: 64 stays";
  Free(memory);
}

TEST_F(GraphTest, LaterEntriesTellTheSameOfArguments) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  using Get = ze_result_t(ZE_APICALL*)(GraphHandle, uint32_t, void*);
  GraphArgumentProperties first;
  ASSERT_EQ(graphs_->pfnGetArgumentProperties(graph, 1, &first), ZE_RESULT_SUCCESS);
  // The later structures begin as the first does and are longer: here, than any of them.
  for (void* entry : {reinterpret_cast<void*>(graphs_->pfnGetArgumentProperties2),
                      reinterpret_cast<void*>(graphs_->pfnGetArgumentProperties3)}) {
    std::vector<uint64_t> room(4096);
    ASSERT_EQ(reinterpret_cast<Get>(entry)(graph, 1, room.data()), ZE_RESULT_SUCCESS);
    auto* const later = reinterpret_cast<GraphArgumentProperties*>(room.data());
    EXPECT_EQ(std::string(later->name), "weight");
    EXPECT_EQ(later->dims[0], first.dims[0]);
    EXPECT_EQ(later->devicePrecision, first.devicePrecision);
    EXPECT_EQ(reinterpret_cast<Get>(entry)(graph, 3, room.data()),
              ZE_RESULT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(reinterpret_cast<Get>(entry)(nullptr, 0, room.data()),
              ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  }
}

// A real one of this version says other things of stages, caches and options.
TEST_F(GraphTest, TheEntriesOf1Point12TellOfGraphsThatNeedNothing) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  const std::string blob = MatMulBlob();
  const GraphHandle graph = NewGraph(blob);
  size_t size = 0;
  const uint8_t* bytes = nullptr;
  ASSERT_EQ(reinterpret_cast<ze_result_t (*)(GraphHandle, size_t*, const uint8_t**)>(
                graphs_->pfnGetNativeBinary2)(graph, &size, &bytes),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes), size), blob);
  struct {
    uint32_t stype = 3;
    void* next = nullptr;
    uint32_t arguments = 0, stages = 77, flags = 77;
  } properties;
  using Ask = ze_result_t (*)(GraphHandle, void*);
  ASSERT_EQ(reinterpret_cast<Ask>(graphs_->pfnGetProperties2)(graph, &properties),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.flags, 77u) << "not in the second structure";
  ASSERT_EQ(reinterpret_cast<Ask>(graphs_->pfnGetProperties3)(graph, &properties),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(properties.arguments, 3u);
  EXPECT_EQ(properties.stages, 0u);
  EXPECT_EQ(properties.flags, 4u) << "compiled by somebody else";
  EXPECT_EQ(reinterpret_cast<ze_result_t (*)(GraphHandle)>(graphs_->pfnGraphInitialize)(graph),
            ZE_RESULT_SUCCESS);
  for (const uint32_t cache : {2u, 3u}) {
    level_zero::GraphMemoryQuery query = {.total = 1, .allocated = 1};
    EXPECT_EQ(graphs_->pfnQueryContextMemory(context_, cache, &query), ZE_RESULT_SUCCESS);
    EXPECT_EQ(query.allocated, 0u);
  }
  size = 0;
  EXPECT_EQ(reinterpret_cast<ze_result_t (*)(ze_device_handle_t, uint32_t, size_t*, char*)>(
                graphs_->pfnCompilerGetSupportedOptions)(device_, 1, &size, nullptr),
            ZE_RESULT_SUCCESS);
  EXPECT_EQ(size, 1u) << "an empty text";
}

TEST_F(GraphTest, ABuildLogSaysWhyABlobWasRefusedUntilItIsDestroyed) {
  NPUBANK_NEEDS_SOFTWARE_NPU();
  using level_zero::GraphBuildLogHandle;
  const auto create = reinterpret_cast<ze_result_t (*)(
      ze_context_handle_t, ze_device_handle_t, const level_zero::GraphDesc*, GraphHandle*,
      GraphBuildLogHandle*)>(graphs_->pfnCreate3);
  const auto tell = reinterpret_cast<ze_result_t (*)(GraphBuildLogHandle, uint32_t*, char*)>(
      graphs_->pfnBuildLogGetString2);
  const auto destroy =
      reinterpret_cast<ze_result_t (*)(GraphBuildLogHandle)>(graphs_->pfnBuildLogDestroy);
  for (const std::string& blob : {std::string("not a function"), MatMulBlob()}) {
    const bool good = blob == MatMulBlob();
    const level_zero::GraphDesc desc = {
        .inputSize = blob.size(), .pInput = reinterpret_cast<const uint8_t*>(blob.data())};
    GraphHandle graph = nullptr;
    GraphBuildLogHandle log = nullptr;
    ASSERT_EQ(create(context_, device_, &desc, &graph, &log),
              good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
    EXPECT_EQ(graphs_->pfnDestroy(graph),
              good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    uint32_t size = 0;
    ASSERT_EQ(tell(log, &size, nullptr), ZE_RESULT_SUCCESS);
    EXPECT_EQ(size == 1, good) << "an empty text";
    std::string text(size, 'x');
    ASSERT_EQ(tell(log, &size, text.data()), ZE_RESULT_SUCCESS);
    EXPECT_EQ(text.find('\0'), size - 1);
    EXPECT_EQ(destroy(log), ZE_RESULT_SUCCESS);
    EXPECT_EQ(destroy(log), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    EXPECT_EQ(tell(log, &size, nullptr), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
  }
}

TEST_F(GraphTest, AGraphWithUnboundOrFreedArgumentsIsNotAppended) {
  const GraphHandle graph = NewGraph(MatMulBlob());
  EXPECT_EQ(Append(NewList(), graph), ZE_RESULT_ERROR_INVALID_ARGUMENT);
  uint8_t* const page = Device(4096);
  Bind(graph, {page, page, page});
  Free(page);
  EXPECT_EQ(Append(NewList(), graph), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

TEST_F(GraphTest, AListKeepsGraphAndMemoryThatAreDestroyed) {
  GraphHandle graph = nullptr;
  ASSERT_EQ(TryCreate(MatMulBlob(), &graph), ZE_RESULT_SUCCESS);
  uint8_t* const page = Device(4096);
  Bind(graph, {page, page + 1024, page + 2048});
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(Append(list, graph), ZE_RESULT_SUCCESS);
  ASSERT_EQ(graphs_->pfnDestroy(graph), ZE_RESULT_SUCCESS);
  Free(page);
  EXPECT_EQ(Execute(list), ZE_RESULT_SUCCESS);
}

TEST_F(GraphTest, OnlyTheRowsThatCountEnterTheCache) {
  const GraphHandle graph = NewGraph(CacheBlob());
  const float* const rows = Put<float>({7, NAN});
  int32_t* const span = Put<int32_t>({3, 1});
  float* const cache = Put<float>({1, 2, 3, 4});
  float* const last = Put<float>({0});
  Bind(graph, {rows, span, cache, last});
  ASSERT_EQ(Run(graph), ZE_RESULT_SUCCESS) << "the second row would not fit";
  EXPECT_EQ(std::vector<float>(cache, cache + 4), (std::vector<float>{1, 2, 3, 7}));
  EXPECT_EQ(*last, 7);
}

TEST_F(GraphTest, ASpanOutsideOfChunkOrCacheLosesTheDevice) {
  const GraphHandle graph = NewGraph(CacheBlob());
  const float* const rows = Put<float>({7, 8});
  float* const cache = Put<float>({1, 2, 3, 4});
  float* const last = Put<float>({0});
  for (const auto& [start, count] : std::vector<std::pair<int32_t, int32_t>>{
           {3, 2}, {4, 1}, {-1, 1}, {0, 0}, {0, 3}, {INT32_MAX, 2}, {0, -1}}) {
    const int32_t* const span = Put<int32_t>({start, count});
    Bind(graph, {rows, span, cache, last});
    EXPECT_EQ(Run(graph), ZE_RESULT_ERROR_DEVICE_LOST) << start << " " << count;
    EXPECT_EQ(std::vector<float>(cache, cache + 4), (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST_F(GraphTest, ATokenThatIsNotInTheTableLosesTheDevice) {
  const GraphHandle graph = NewGraph(EmbedBlob());
  const float* const table = Put<float>({0, 1, 2, 3, 4, 5});
  float* const out = Put<float>({0, 0, 0, 0});
  Bind(graph, {Put<int32_t>({2, 0}), table, out});
  ASSERT_EQ(Run(graph), ZE_RESULT_SUCCESS);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{4, 5, 0, 1}));
  Bind(graph, {Put<int32_t>({2, 3}), table, out});
  EXPECT_EQ(Run(graph), ZE_RESULT_ERROR_DEVICE_LOST);
}

TEST_F(GraphTest, EventsOrderGraphsLikeOtherCommands) {
  const GraphHandle graph = NewGraph(EmbedBlob());
  float* const out = Put<float>({0, 0, 0, 0});
  Bind(graph, {Put<int32_t>({1, 1}), Put<float>({0, 1, 2, 3, 4, 5}), out});
  std::vector<ze_event_handle_t> events = NewEvents(2);
  const ze_command_list_handle_t list = NewList();
  ASSERT_EQ(graphs_->pfnAppendGraphInitialize(list, graph, nullptr, 0, nullptr), ZE_RESULT_SUCCESS);
  ASSERT_EQ(graphs_->pfnAppendGraphExecute(list, graph, nullptr, events[1], 1, events.data()),
            ZE_RESULT_SUCCESS);
  ASSERT_EQ(zeCommandListClose(list), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Submit(list, nullptr), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeEventQueryStatus(events[1]), ZE_RESULT_NOT_READY);
  ASSERT_EQ(zeEventHostSignal(events[0]), ZE_RESULT_SUCCESS);
  EXPECT_EQ(zeEventHostSynchronize(events[1], kForever), ZE_RESULT_SUCCESS);
  EXPECT_EQ(out[1], 3);
}

TEST_F(GraphTest, HiddenMemoryIsUsedInPlace) {
  SetSwitches({{"NPUBANK_NPU_HOST_ACCESS", "0"}});
  const GraphHandle graph = NewGraph(EmbedBlob());
  uint8_t* const hidden = Device(4096);
  uint8_t* const host = Host(4096);
  const float table[] = {0, 1, 2, 3, 4, 5};
  const int32_t ids[] = {2, 1};
  std::memcpy(host, table, sizeof(table));
  std::memcpy(host + 1024, ids, sizeof(ids));
  ASSERT_EQ(Copy(hidden, host, 4096), ZE_RESULT_SUCCESS);
  Bind(graph, {hidden + 1024, hidden, hidden + 2048});
  ASSERT_EQ(Run(graph), ZE_RESULT_SUCCESS);
  ASSERT_EQ(Copy(host, hidden, 4096), ZE_RESULT_SUCCESS);
  float out[4];
  std::memcpy(out, host + 2048, sizeof(out));
  EXPECT_EQ(out[0], 4);
  EXPECT_EQ(out[3], 3);
  Free(hidden);
  Free(host);
}

}  // namespace
}  // namespace npubank
