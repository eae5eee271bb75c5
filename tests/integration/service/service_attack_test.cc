// npubankd as a stranger meets it: what a client may do to harm it costs that client its connection, and
// nobody else a byte. The daemon is a program of its own, started as systemd starts it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "npubank/bank/bank.h"
#include "npubank/bank/service/client/bank_client.h"
#include "npubank/bank/service/wire/channel.h"
#include "npubank/bank/service/wire/messages.h"
#include "npubank/lazy_tensor/lazy_tensor.h"
#include "npubank/lazy_tensor/recipe/recipe_codec.h"
#include "npubank/tests/support/importing_memory.h"
#include "npubank/tests/support/program.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/support/weights/test_weights.h"

namespace npubank::service {
namespace {

using ::testing::HasSubstr;

bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

class ServiceAttackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Listen();
    StartDaemon();
    auto client = BankClient::Connect(path_);
    ASSERT_TRUE(client.ok()) << client.status();
    good_ = *std::move(client);
    bank_ = Bank::Create(std::make_shared<ImportingMemory>(), {.upstream = good_});
    owner_ = bank_->AddOwner("good", {.index = weights_.Index()});
    const std::vector<LazyTensor> tensors = weights_.Submodel();
    for (size_t i = 0; i < tensors.size(); ++i) {
      ASSERT_TRUE(bank_->Register(owner_, tensors[i], TestWeights::Name(i)).ok());
    }
    auto leases = bank_->Load(owner_);
    ASSERT_TRUE(leases.ok()) << leases.status();
    leases_ = *std::move(leases);
    ASSERT_GT(bank_->Totals().service_hits, 0u) << "the daemon is used";
    before_ = good_->GetState().value();
    open_files_ = OpenFilesOfDaemon();
  }
  void TearDown() override {
    leases_.clear();
    owner_.Release();
    if (daemon_ > 0) kill(daemon_, SIGTERM);
    int status = 0;
    EXPECT_EQ(waitpid(daemon_, &status, 0), daemon_);
    EXPECT_EQ(status, 0) << "it ends as it should";
  }

  void Listen() {
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener, 100), 0);
    listener_ = FileDescriptor(listener);
  }
  // With the listening socket as descriptor 3, and told that it is its own.
  void StartDaemon() {
    daemon_ = fork();
    if (daemon_ != 0) return;
    dup2(listener_.get(), 3);
    fcntl(3, F_SETFD, 0);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", absl::StrCat(getpid()).c_str(), 1);
    execl(NPUBANK_BIN "/npubankd", "npubankd", nullptr);
    _exit(127);
  }
  size_t OpenFilesOfDaemon() const {
    const std::filesystem::directory_iterator files(absl::StrCat("/proc/", daemon_, "/fd"));
    return std::distance(begin(files), end(files));
  }
  Channel Connect() {
    auto channel = Channel::Connect(path_);
    EXPECT_TRUE(channel.ok()) << channel.status();
    return *std::move(channel);
  }
  Channel Greeted() {
    Channel channel = Connect();
    EXPECT_TRUE(channel.Send(Encode(Hello{.program = "attacker"})).ok());
    EXPECT_TRUE(channel.Receive().ok());
    return channel;
  }
  // In a process of its own, which is waited for.
  static void InAProcess(const std::function<void()>& attack) {
    const pid_t child = fork();
    if (child == 0) {
      attack();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
  }

  // The good client still has its bytes and is answered, at once; what others brought is gone.
  void ExpectUnharmed(const std::string& after) {
    SCOPED_TRACE(after);
    const auto start = std::chrono::steady_clock::now();
    const auto state = good_->GetState();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_THAT(state->audit, ::testing::IsEmpty());
    for (size_t i = 0; i < leases_.size(); ++i) {
      EXPECT_EQ(HostBytesAt(leases_[i].address(), leases_[i].type().bytes()), weights_.Expected(i));
    }
    EXPECT_TRUE(Eventually([&] { return good_->GetState().value().clients.size() == 1; }));
    EXPECT_TRUE(Eventually([&] { return OpenFilesOfDaemon() <= open_files_; }))
        << OpenFilesOfDaemon() << " files are open, " << open_files_ << " were";
    EXPECT_EQ(good_->GetState().value().memory_bytes, before_.memory_bytes);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("socket");
  FileDescriptor listener_;
  pid_t daemon_ = 0;
  TestWeights weights_{1};
  std::shared_ptr<BankClient> good_;
  std::shared_ptr<Bank> bank_;
  Owner owner_;
  std::vector<Lease> leases_;
  size_t open_files_ = 0;
  State before_;
};

TEST_F(ServiceAttackTest, FloodsOfConnectionsThatSayNothing) {
  {
    std::vector<Channel> silent;
    for (int i = 0; i < 80; ++i) silent.push_back(Connect());
    const auto state = good_->GetState();
    EXPECT_TRUE(state.ok()) << state.status();
  }
  ExpectUnharmed("two hundred silent ones");
  for (int i = 0; i < Repetitions(2000); ++i) (void)Connect();
  ExpectUnharmed("those that come and go");
}

TEST_F(ServiceAttackTest, BytesThatAreNoMessages) {
  std::mt19937_64 random(PrintedSeed());
  const std::string good = Encode(Load{.owner = "attacker", .lists = {}});
  for (int round = 0; round < Repetitions(1000); ++round) {
    Channel channel = round % 2 == 0 ? Connect() : Greeted();
    std::string bytes = good;
    for (uint64_t i = random() % 20; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    (void)send(channel.descriptor(), bytes.data(),
               random() % 3 == 0 ? random() % bytes.size() : bytes.size(), MSG_NOSIGNAL);
  }
  ExpectUnharmed("changed and cut messages");
}

TEST_F(ServiceAttackTest, DescriptorsThatNobodyAskedFor) {
  const FileDescriptor null = FileDescriptor::Open("/dev/null", O_RDONLY);
  const std::vector<int> many(Channel::kMostDescriptors, null.get());
  for (const Message& message : {Message(Hello{}), Message(GetState{}), Message(Load{}),
                                 Message(Release{}), Message(OpenSources{.names = {"one"}})}) {
    Channel channel = Greeted();
    (void)channel.Send(Encode(message), many);
  }
  ExpectUnharmed("more of them than names");
  // Its own connection, and one that holds itself in flight.
  for (int i = 0; i < 20; ++i) {
    auto pair = Channel::Pair().value();
    Channel channel = Greeted();
    const int own[] = {channel.descriptor(), pair.first.descriptor(), pair.second.descriptor()};
    (void)channel.Send(Encode(OpenSources{.names = {"a", "b", "c"}}), own);
    (void)pair.first.Send("x", {pair.second.descriptor()});
  }
  ExpectUnharmed("connections within connections");
}

TEST_F(ServiceAttackTest, WhatIsNoReadableFileOfTheClients) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor read_end(ends[0]), write_end(ends[1]);
  const FileDescriptor memory(memfd_create("attack", MFD_CLOEXEC));
  const std::string file = folder_.Write("secret", std::string(1 << 20, 's'));
  const auto others = [&] {
    std::vector<std::pair<const char*, FileDescriptor>> kinds;
    kinds.emplace_back("folder", FileDescriptor::Open(folder_.path(), O_RDONLY | O_DIRECTORY));
    kinds.emplace_back("device", FileDescriptor::Open("/dev/zero", O_RDONLY));
    kinds.emplace_back("pipe", FileDescriptor(dup(read_end.get())));
    kinds.emplace_back("socket", FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    kinds.emplace_back("only a name", FileDescriptor::Open(file, O_PATH));
    kinds.emplace_back("only for writing", FileDescriptor::Open(file, O_WRONLY));
    kinds.emplace_back("proc", FileDescriptor::Open("/proc/self/maps", O_RDONLY));
    kinds.emplace_back("empty memory", FileDescriptor(dup(memory.get())));
    kinds.emplace_back("a segment of its own", FileDescriptor(dup(leases_[0].file()->descriptor)));
    return kinds;
  }();
  for (const auto& [kind, descriptor] : others) {
    SCOPED_TRACE(kind);
    ASSERT_TRUE(descriptor.is_open());
    Channel channel = Greeted();
    ASSERT_TRUE(channel.Send(Encode(OpenSources{.names = {kind}}), {descriptor.get()}).ok());
    const auto packet = channel.Receive();
    ASSERT_TRUE(packet.ok()) << packet.status();
    const auto answer = Decode(packet->bytes);
    ASSERT_TRUE(answer.ok()) << answer.status();
    // These are regular files of no bytes, as far as the system says: no tensor lies in them.
    if (const auto* opened = std::get_if<SourcesOpened>(&*answer)) {
      ASSERT_EQ(opened->sources.size(), 1u);
      EXPECT_EQ(opened->sources[0].size, 0u);
      continue;
    }
    EXPECT_TRUE(std::holds_alternative<Failed>(*answer)) << NameOf(*answer);
  }
  ExpectUnharmed("what proves nothing");
}

TEST_F(ServiceAttackTest, AClientThatAsksAndNeverReads) {
  InAProcess([&] {
    Channel channel = Greeted();
    const std::string ask = Encode(GetState{});
    // Until the daemon takes no more, or has had enough.
    for (int i = 0; i < 20000; ++i) {
      if (send(channel.descriptor(), ask.data(), ask.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        break;
    }
    const auto other = BankClient::Connect(path_);
    if (!other.ok() || !(*other)->GetState().ok()) _exit(1);
  });
  ExpectUnharmed("one that read nothing");
}

TEST_F(ServiceAttackTest, FloodsOfRegistrationsAreRefusedByNameAndLeaveNothing) {
  constexpr uint64_t kBudget = 8 << 20;
  constexpr uint32_t kTensors = 1000;  // a page each
  ASSERT_TRUE(good_->SetBudget(kBudget).ok());
  std::string refusal;
  {
    Channel channel = Greeted();
    for (uint32_t flood = 0; flood < 10 && refusal.empty(); ++flood) {
      Load load{.owner = "flood", .lists = {}};
      Load::List& list = load.lists.emplace_back();
      std::vector<RecipePtr> recipes;
      for (uint32_t i = 0; i < kTensors; ++i) {
        const TensorType type =
            TensorType::Create(ElementType::kF32, Shape::Create({1}).value()).value();
        recipes.push_back(LazyTensor::Splat(type, flood * kTensors + i).value().recipe());
        list.roots.push_back(i);
        list.names.push_back(absl::StrCat("drop ", i));
      }
      list.recipes = EncodeRecipes(recipes).value();
      ASSERT_TRUE(channel.Send(Encode(load)).ok());
      for (bool answered = false; !answered;) {
        const auto packet = channel.Receive();
        ASSERT_TRUE(packet.ok()) << packet.status();
        const auto answer = Decode(packet->bytes);
        ASSERT_TRUE(answer.ok()) << answer.status();
        answered = !std::holds_alternative<Progress>(*answer);
        if (const auto* failed = std::get_if<Failed>(&*answer))
          refusal = std::string(failed->status.message());
      }
    }
    EXPECT_LE(good_->GetState().value().memory_bytes, kBudget);
  }
  EXPECT_THAT(refusal, HasSubstr("budget of"));
  EXPECT_TRUE(Eventually([&] { return good_->SetBudget(before_.budget_used).ok(); }))
      << "what nobody owns leaves";
  ExpectUnharmed("ten thousand registrations");
}

// Of nothing, so that there is nothing to prove: 64 MiB, cut and turned round eighty times.
TEST_F(ServiceAttackTest, ARecipeThatCostsForEverKeepsNobodyWaitingAndEndsWithItsClient) {
  constexpr int64_t kSide = 4096;
  const TensorType type =
      TensorType::Create(ElementType::kF32, Shape::Create({kSide, kSide}).value()).value();
  LazyTensor tensor = LazyTensor::Splat(type, 0x3f800000).value();
  for (int i = 0; i < 80; ++i) {
    const LazyTensor halves[] = {tensor.Slice({0, 1}, {kSide, kSide - 1}).value(),
                                 tensor.Slice({0, 0}, {kSide, 1}).value()};
    tensor = LazyTensor::Concat(halves, 1).value().Permute({1, 0}).value();
  }
  Load load{.owner = "for ever", .lists = {}};
  load.lists.push_back({.recipes = EncodeRecipes({tensor.recipe()}).value(),
                        .sources = {},
                        .roots = {0},
                        .names = {"for ever"}});
  {
    Channel channel = Greeted();
    ASSERT_TRUE(channel.Send(Encode(load)).ok());
    EXPECT_TRUE(Eventually([&] {
      const State state = good_->GetState().value();
      return std::any_of(state.clients.begin(), state.clients.end(),
                         [](const ClientState& client) { return !client.loading.empty(); });
    })) << "it is being made";
    const TestWeights others(2, /*variant=*/1);
    const auto client = BankClient::Connect(path_).value();
    const auto bank = Bank::Create(std::make_shared<ImportingMemory>(), {.upstream = client});
    const Owner owner = bank->AddOwner("in between", {.index = others.Index()});
    for (const LazyTensor& of : others.Submodel())
      ASSERT_TRUE(bank->Register(owner, of, "of").ok());
    EXPECT_TRUE(bank->Load(owner).ok());
    EXPECT_EQ(bank->Totals().service_hits, others.size()) << "who comes meanwhile is served";
    const State state = good_->GetState().value();
    EXPECT_TRUE(std::any_of(state.clients.begin(), state.clients.end(), [](const ClientState& of) {
      return !of.loading.empty();
    })) << "and that goes on";
  }
  EXPECT_TRUE(Eventually([&] { return good_->GetState().value().clients.size() == 1; }));
  ASSERT_TRUE(good_->SetBudget(1 << 20).ok()) << "what nobody owns leaves";
  const auto state = good_->GetState();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_LT(state->memory_bytes, uint64_t{4} << 20) << "of the 64 MiB nothing is left";
  EXPECT_THAT(state->audit, ::testing::IsEmpty());
}

TEST_F(ServiceAttackTest, AClientThatStopsBreathingIsNobodysBusiness) {
  const pid_t child = fork();
  if (child == 0) {
    Channel channel = Greeted();
    for (int i = 0; i < 100; ++i) (void)channel.Send(Encode(GetState{}));
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(good_->GetState().ok());
  const auto fresh = BankClient::Connect(path_);
  EXPECT_TRUE(fresh.ok() && (*fresh)->GetState().ok());
  if (fresh.ok()) kill(child, SIGKILL);
  waitpid(child, &status, 0);
}

// The child has the connection too, and lives on.
TEST_F(ServiceAttackTest, AClientThatForksAndDiesIsGone) {
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  InAProcess([&] {
    Channel channel = Greeted();
    if (fork() == 0) {
      close(alive[1]);
      char byte = 0;
      (void)!read(alive[0], &byte, 1);  // until the test is over
      _exit(0);
    }
  });
  close(alive[0]);
  ExpectUnharmed("its child still holds the connection");
  close(alive[1]);
}

TEST_F(ServiceAttackTest, AProcessThatWasNotStartedByItsManagerDoesNotBelieveItsEnvironment) {
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_PID", "1", 1);
  const ProgramResult other =
      RunProgram({NPUBANK_BIN "/npubankd", "--socket", folder_.File("missing/deep/socket")});
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_PID");
  EXPECT_NE(other.exit_status, 0);
  EXPECT_THAT(other.error, HasSubstr("deep"));
}

TEST_F(ServiceAttackTest, InspectShowsTheClientAndFindsNoLeak) {
  const ProgramResult shown = RunProgram({NPUBANK_BIN "/bank-inspect", "--service", path_});
  EXPECT_EQ(shown.exit_status, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr(absl::StrCat("npubankd, pid ", daemon_)));
  EXPECT_THAT(shown.out, HasSubstr(absl::StrCat(getpid())));
  EXPECT_THAT(shown.out, HasSubstr("resident"));
  const ProgramResult leaks =
      RunProgram({NPUBANK_BIN "/bank-inspect", "leaks", "--service", path_});
  EXPECT_EQ(leaks.exit_status, 0) << leaks.out << leaks.error;
  const ProgramResult none =
      RunProgram({NPUBANK_BIN "/bank-inspect", "--service", folder_.File("none")});
  EXPECT_EQ(none.exit_status, 1);
}

}  // namespace
}  // namespace npubank::service
