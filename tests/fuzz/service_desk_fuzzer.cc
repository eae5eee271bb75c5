// A client that says whatever it likes, in any order: each byte of the input is something it does, with
// the bytes after it. Nobody else loses a byte by it: a second desk holds a model all the while, and what
// it holds has the same hash at the end; and when both have gone, nothing is leased, owned or open.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npubank/bank/bank.h"
#include "npubank/bank/bank_snapshot.h"
#include "npubank/bank/books/audit.h"
#include "npubank/bank/loading/content.h"
#include "npubank/bank/service/daemon/desk.h"
#include "npubank/bank/service/shared_memory.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank::service {
namespace {

class NoHost final : public Desk::Host {
 public:
  State Describe() override { return {}; }
  absl::Status SetBudget(uint64_t) override { return absl::OkStatus(); }
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::string Bytes(size_t count) {
    std::string bytes;
    while (count-- > 0 && size_ > 0) bytes.push_back(static_cast<char>(Byte()));
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

const TestWeights& Weights() {
  static const auto& weights = *new TestWeights(2);
  return weights;
}

Load GoodLoad(uint32_t source) {
  static const auto& recipes = *new std::string([] {
    std::vector<RecipePtr> made;
    for (const LazyTensor& tensor : Weights().Submodel()) made.push_back(tensor.recipe());
    return EncodeRecipes(made).value();
  }());
  Load load{.owner = "submodel", .lists = {}};
  load.lists.push_back({recipes, {source}, {0, 1, 2, 3}, {"a", "b", "c", "d"}});
  return load;
}

FileDescriptor AFile(uint8_t kind) {
  const std::string path = Weights().path();
  switch (kind % 6) {
    case 0:
      return FileDescriptor::Open(path, O_PATH);
    case 1:
      return FileDescriptor::Open("/", O_RDONLY);
    case 2:
      return FileDescriptor::Open("/dev/null", O_RDWR);
    case 3:
      return FileDescriptor::Open("/proc/self/status", O_RDONLY);
    default:
      return FileDescriptor::Open(path, O_RDONLY);
  }
}

Message Something(Input& input) {
  const uint8_t kind = input.Byte();
  switch (kind % 11) {
    case 0:
      return Hello{.protocol = kProtocol + kind / 250, .program = input.Bytes(3)};
    case 1: {
      OpenSources open;
      for (int i = input.Byte() % 4; i > 0; --i) open.names.push_back(input.Bytes(2));
      return open;
    }
    case 2:
      return GoodLoad(input.Byte() % 3);
    case 3: {
      Load load = GoodLoad(input.Byte() % 3);
      load.if_there = true;
      return load;
    }
    case 4: {
      Load load = GoodLoad(input.Byte() % 3);
      std::string& recipes = load.lists[0].recipes;
      recipes[input.Byte() * 256u % recipes.size()] ^= static_cast<char>(input.Byte());
      recipes[(input.Byte() * 7u) % recipes.size()] = static_cast<char>(input.Byte());
      if (input.Byte() % 4 == 0) load.lists[0].roots.push_back(input.Byte());
      load.lists[0].names.resize(load.lists[0].roots.size());
      return load;
    }
    case 5:
      return More{input.Byte()};
    case 6:
      return Cancel{};
    case 7:
      return Release{{input.Byte() % 8u}, {input.Byte() % 3u}};
    case 8:
      return GetState{};
    case 9:
      return Loaded{};
    default: {
      const auto message = Decode(input.Bytes(input.Byte()));
      return message.ok() ? *message : Message(Done{});
    }
  }
}

void Talk(Desk& desk, Input& input) {
  if (input.Byte() % 8 != 0) (void)desk.Handle(Hello{}, {}, {});
  while (!input.empty()) {
    const Message message = Something(input);
    std::vector<FileDescriptor> files;
    const bool brings = std::holds_alternative<OpenSources>(message);
    for (int i = input.Byte() % (brings ? 4 : 2); i > 0; --i) files.push_back(AFile(input.Byte()));
    LoadOptions options;
    const bool cancelled = input.Byte() % 16 == 0;
    options.cancelled = [cancelled] { return cancelled; };
    if (!desk.Handle(message, std::move(files), options).ok()) return;  // its connection ends
    desk.Prepare();
  }
}

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

std::unique_ptr<Desk> Victim(const std::shared_ptr<Bank>& bank,
                             const std::shared_ptr<SharedMemory>& memory, Desk::Host& host,
                             Desk::Answer& loaded) {
  auto desk = std::make_unique<Desk>(bank, memory, Desk::Client{}, host);
  (void)desk->Handle(Hello{}, {}, {});
  std::vector<FileDescriptor> files;
  files.push_back(FileDescriptor::Open(Weights().path(), O_RDONLY));
  (void)desk->Handle(OpenSources{{"weights"}}, std::move(files), {});
  auto answer = desk->Handle(GoodLoad(0), {}, {});
  if (!answer.ok() || !std::holds_alternative<Loaded>(answer->message)) std::abort();
  loaded = *std::move(answer);
  return desk;
}

Digest HashOf(const Desk::Answer& loaded) {
  ContentHash hash;
  for (size_t i = 0; i < loaded.descriptors.size(); ++i) {
    std::vector<std::byte> bytes(std::get<Loaded>(loaded.message).segments[i].bytes);
    if (!ReadAt(loaded.descriptors[i], "segment", 0, absl::MakeSpan(bytes)).ok()) std::abort();
    hash.Add(bytes);
  }
  return hash.Finish();
}

void Try(Input input) {
  const auto memory = SharedMemory::Create({.capacity = 1 << 24, .huge_pages = false}).value();
  const auto bank = Bank::Create(memory, {.budget_bytes = 1 << 22, .keep_unowned = true});
  NoHost host;
  {
    Desk::Answer loaded;
    const auto victim = Victim(bank, memory, host, loaded);
    const Digest before = HashOf(loaded);
    {
      Desk desk(bank, memory, {}, host);
      Talk(desk, input);
    }
    if (HashOf(loaded) != before) std::abort();
    if (!bank->Audit().clean()) std::abort();
  }
  if (!bank->Snapshot().owners.empty()) std::abort();
  bank->Trim();
  if (memory->Usage().live_allocations != 0) std::abort();
}

}  // namespace
}  // namespace npubank::service

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npubank::service;
  Weights();
  const size_t before = OpenFiles();
  Try(Input(data, size));
  if (OpenFiles() != before) std::abort();
  return 0;
}
