// Every order of what two clients and their daemon can do, explored by states: from each state that can be
// reached each step is taken, over the shortest way there, and where it leads is looked at in the same
// way. After each step everybody has his bytes, the three audits agree, the system counts the memory that
// the books have, and the daemon leases to each client what it has of it, and nothing else.
//
// A state is all that is to be seen of a history: what each client has and since when, and what the daemon
// has, made and keeps. Histories that left the same are taken to go on alike. The quick suite goes a few
// steps deep, the full one until nothing new is reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/daemon/kept_segments.h"
#include "npubank/bank/service/daemon/service_socket.h"
#include "npubank/tests/support/repetitions.h"
#include "npubank/tests/support/temporary_folder.h"
#include "npubank/tests/unit/service/service_fixture.h"
#include "npubank/tests/unit/service/test_manager.h"

namespace npubank::service {
namespace {

enum Act {
  kConnect,
  kRegister,
  kLoad,
  kLease,
  kSleep,
  kRelease,
  kDisconnect,
  kTrim,
  kRestart,  // with nothing of what the daemon before it had
  kRestartKept,
};
constexpr const char* kNames[] = {"connect", "register",   "load", "lease",   "sleep",
                                  "release", "disconnect", "trim", "restart", "restart kept"};
constexpr int kClients = 2;

struct Step {
  Act act;
  int client;
};

// A daemon and two clients of it, of which each runs one model.
class World {
 public:
  explicit World(const TestWeights* const (&models)[kClients]) {
    for (int i = 0; i < kClients; ++i) clients_[i].model = models[i];
    Restart();
  }
  ~World() {
    for (Client& client : clients_) Disconnect(client);
    server_.reset();
    daemon_->Trim();
    EXPECT_EQ(memory_->Usage().live_allocations, 0u);
  }

  bool Possible(Step step) const {
    const Client& client = clients_[step.client];
    switch (step.act) {
      case kConnect:
        return client.process == nullptr;
      case kDisconnect:
        return client.process != nullptr;
      case kRegister:
        return client.process != nullptr && !client.owner;
      case kLoad:  // what was put to sleep is woken by it
        return client.owner && client.leases.empty();
      case kLease:
        return client.owner && !client.single;
      case kSleep:
        return client.owner && (!client.leases.empty() || client.single);
      case kRelease:
        return client.owner.has_value();
      case kTrim:
      case kRestart:
      case kRestartKept:
        return step.client == 0;
    }
    return false;
  }

  void Do(Step step) {
    Client& client = clients_[step.client];
    if (step.act == kLoad || step.act == kLease) may_be_made_ += NotResident(client);
    switch (step.act) {
      case kConnect:
        client.process = std::make_unique<TestProcess>(BankClient::Connect(path_).value());
        return;
      case kRegister:
        client.owner = client.process->Register(*client.model);
        return;
      case kLoad:
        client.leases = client.process->bank->Load(*client.owner).value();
        return;
      case kLease:
        client.single = client.process->bank->Get(client.model->Submodel()[0].uid()).value();
        return;
      case kSleep:
        client.LetGo();
        EXPECT_TRUE(client.process->bank->Sleep(*client.owner).ok());
        return;
      case kRelease:
        client.LetGo();
        client.owner.reset();
        return;
      case kDisconnect:
        return Disconnect(client);
      case kTrim:
        daemon_->Trim();
        return;
      case kRestart:
        manager_.files.clear();
        return Restart();
      case kRestartKept:
        return Restart();
    }
  }

  void Check() {
    for (Client& client : clients_) {
      if (client.process == nullptr) continue;
      EXPECT_THAT(client.process->client->notices(), ::testing::IsEmpty());
      for (size_t i = 0; i < client.leases.size(); ++i) ExpectTensor(client, client.leases[i], i);
      if (client.single) ExpectTensor(client, *client.single, 0);
    }
    // A lease that was let go of is under way still.
    EXPECT_TRUE(Eventually([&] { return Leased() == Imported(); }))
        << "leased " << Leased() << ", imported " << Imported();
    Audit();
    EXPECT_EQ(memory_->DriverBytes().value(), memory_->Usage().held_bytes);
    EXPECT_LE(daemon_->Totals().evaluations, may_be_made_) << "something was made again";
  }

  std::string State() {
    std::string state;
    for (const Client& client : clients_) {
      absl::StrAppend(
          &state, "; ", client.process != nullptr, client.owner.has_value(), client.leases.size(),
          client.single.has_value(), HasOfThisDaemon(client),
          client.process == nullptr ? 0 : client.process->memory->Usage().imported_bytes);
    }
    const BankTotals totals = daemon_->Totals();
    absl::StrAppend(&state, "; ", totals.unique_tensors, " ", memory_->DriverBytes().value(), " ",
                    memory_->Segments().size(), " ", kept_->adopted());
    return state;
  }

 private:
  struct Client {
    const TestWeights* model = nullptr;
    std::unique_ptr<TestProcess> process;
    std::optional<Owner> owner;
    std::vector<Lease> leases;
    std::optional<Lease> single;
    void LetGo() {
      leases.clear();
      single.reset();
    }
  };

  // Sources are counted for the whole process, in which they all are.
  void Audit() {
    std::vector<const Bank*> banks = {daemon_.get()};
    for (const Client& client : clients_) {
      if (client.process != nullptr) banks.push_back(client.process->bank.get());
    }
    for (size_t i = 0; i < banks.size(); ++i) {
      std::swap(banks[0], banks[i]);
      const AuditReport report = banks[0]->Audit(0, absl::MakeConstSpan(banks).subspan(1));
      EXPECT_TRUE(report.clean()) << report.ToString();
    }
  }
  // Whoever holds something of its memory leases it again by himself: asked for anything, he has done so.
  void Restart() {
    if (kept_ != nullptr) kept_->Rest();
    server_.reset();
    socket_.reset();
    daemon_.reset();
    kept_ = std::make_shared<KeptSegments>(std::make_unique<TestStore>(manager_));
    memory_ =
        SharedMemory::Create(
            {.huge_pages = false, .gone = [kept = kept_](const Segment& of) { kept->Forget(of); }})
            .value();
    daemon_ = Bank::Create(memory_, {.keep_unowned = true});
    kept_->TakeBack(manager_.HandOver(), *memory_, *daemon_);
    EXPECT_THAT(kept_->problems(), ::testing::IsEmpty());
    may_be_made_ = 0;
    socket_ = ServiceSocket::Listen(path_).value();
    server_ = Server::Start(socket_->TakeListener(), daemon_, memory_, {.kept = kept_}).value();
    for (const Client& client : clients_) {
      if (client.process == nullptr) continue;
      EXPECT_TRUE(client.process->client->GetState().ok());
    }
  }
  // Of its model, in the daemon.
  uint64_t NotResident(const Client& client) const {
    uint64_t missing = 0;
    for (const LazyTensor& tensor : client.model->Submodel()) {
      missing += daemon_->Inspect(tensor.uid()).ok() ? 0 : 1;
    }
    return missing;
  }
  static void Disconnect(Client& client) {
    client.LetGo();
    client.owner.reset();
    client.process.reset();
  }
  static void ExpectTensor(const Client& client, const Lease& lease, size_t i) {
    EXPECT_EQ(HostBytesAt(lease.address(), lease.bytes()), client.model->Expected(i)) << i;
  }
  size_t Leased() const {
    size_t clients = 0;
    for (const ClientState& of : server_->Describe().clients) clients += of.leased_segments > 0;
    return clients;
  }
  size_t Imported() const {
    size_t clients = 0;
    for (const Client& client : clients_) clients += HasOfThisDaemon(client) ? 1 : 0;
    return clients;
  }
  // Whether what it has is memory of the daemon that is there, and not of one before.
  bool HasOfThisDaemon(const Client& client) const {
    std::set<uint64_t> here;
    for (const auto& segment : memory_->Segments()) {
      struct stat facts = {};
      if (fstat(segment->descriptor(), &facts) == 0) here.insert(facts.st_ino);
    }
    TestProcess::Submodel all{Owner(), client.leases};
    if (client.single) all.leases.push_back(*client.single);
    const std::vector<uint64_t> inodes = Inodes(all);
    return std::any_of(inodes.begin(), inodes.end(),
                       [&](uint64_t of) { return here.contains(of); });
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("private/socket");
  std::unique_ptr<ServiceSocket> socket_;
  TestManager manager_;
  std::shared_ptr<KeptSegments> kept_;
  std::shared_ptr<SharedMemory> memory_;
  std::shared_ptr<Bank> daemon_;
  std::unique_ptr<Server> server_;
  uint64_t may_be_made_ = 0;  // by this daemon, when nothing is made that is there
  Client clients_[kClients];
};

std::string InWords(const std::vector<Step>& steps) {
  std::string words;
  for (const Step& step : steps) absl::StrAppend(&words, kNames[step.act], " ", step.client, ", ");
  return words;
}

// A state: the shortest way there, and what can be done then.
struct Place {
  std::vector<Step> way;
  std::vector<Step> next;
};

Place PlaceOf(const World& world, std::vector<Step> way) {
  Place place{std::move(way), {}};
  for (int act = kConnect; act <= kRestartKept; ++act) {
    for (int client = 0; client < kClients; ++client) {
      const Step step{static_cast<Act>(act), client};
      if (world.Possible(step)) place.next.push_back(step);
    }
  }
  return place;
}

// All steps from the states that are less than `depth` steps away.
void Explore(const TestWeights* const (&models)[kClients], size_t depth) {
  std::set<std::string> known;
  std::deque<Place> open;
  {
    World start(models);
    known.insert(start.State());
    open.push_back(PlaceOf(start, {}));
  }
  size_t taken = 0;
  for (; !open.empty() && !::testing::Test::HasFailure(); open.pop_front()) {
    for (const Step& step : open.front().next) {
      std::vector<Step> way = open.front().way;
      World world(models);
      for (const Step& before : way) world.Do(before);
      way.push_back(step);
      SCOPED_TRACE(InWords(way));
      world.Do(step);
      world.Check();
      ++taken;
      if (way.size() < depth && known.insert(world.State()).second) {
        open.push_back(PlaceOf(world, way));
      }
    }
  }
  std::printf("%zu states, %zu steps from them\n", known.size(), taken);
}

class ServiceStatesTest : public ::testing::Test {
 protected:
  static size_t Depth() { return static_cast<size_t>(Repetitions(/*all=*/100, /*quick=*/4)); }
  const TestWeights one_{1};
  const TestWeights other_{1, /*variant=*/1};
};

TEST_F(ServiceStatesTest, TwoClientsOfOneModelInEveryOrder) { Explore({&one_, &one_}, Depth()); }

TEST_F(ServiceStatesTest, TwoClientsOfTwoModelsInEveryOrder) { Explore({&one_, &other_}, Depth()); }

}  // namespace
}  // namespace npubank::service
