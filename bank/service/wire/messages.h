// Messages: what npubankd and its clients say to each other, as values and as bytes.
//
//   channel.Send(Encode(Load{.owner = "prefill", .lists = ...}));
//   NPUBANK_ASSIGN_OR_RETURN(Message message, Decode(packet.bytes));
//   if (const auto* loaded = std::get_if<Loaded>(&message)) ...
//
//   client                                      daemon
//   Hello                                       Hello, or Failed: what does not fit together
//   OpenSources + a descriptor each             SourcesOpened
//   Load                                        Progress ..., then Loaded + descriptors of its segments
//   Load, if_there                              Loaded: what is resident; for who had it of a daemon before
//   More                                        Descriptors + the next ones
//   Cancel (while a Load is under way)          -, the Load fails with Cancelled
//   Release                                     -
//   GetState                                    State
//   SetBudget                                   Done
//
// Each request has one answer; Failed says, with the Status, why there is none. A client has one
// request under way; only Cancel and Release may follow it. What a Load leases is leased in segments,
// files of shared memory: each answer that names one grants it once more, and Release gives grants
// back. A load of any number of tensors is two round trips, OpenSources and Load, and one only when the
// files were opened before; a load of more than 252 segments one more for each further 252.
//
// Decode is for hostile bytes: verified by flatbuffers, and bounded by the kMost constants; the
// recipes in a Load are bytes still, and bounded by EncodedRecipes when they are opened.
// Errors: InvalidArgument. Threads: pure functions. Cost: a pass over the message.
#ifndef NPUBANK_BANK_SERVICE_WIRE_MESSAGES_H_
#define NPUBANK_BANK_SERVICE_WIRE_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "npubank/lazy_tensor/digest.h"

namespace npubank::service {

// Both ends must have the same of these. The second is what recipe_codec.h writes; the third is raised
// when an evaluation of the same recipe gives other bytes than before.
inline constexpr uint32_t kProtocol = 2;
inline constexpr uint32_t kRecipeCodec = 2;
inline constexpr uint32_t kResultRevision = 1;

inline constexpr size_t kMostNameBytes = 4096;  // of any name; those of programs and owners are cut
inline constexpr size_t kMostLists = 4096;      // in a Load
inline constexpr size_t kMostTensors = 1 << 17;
inline constexpr size_t kMostSourcesOfList = 1 << 13;

struct Hello {
  uint32_t protocol = kProtocol;
  uint32_t recipe_codec = kRecipeCodec;
  uint32_t result_revision = kResultRevision;
  std::string program;
};

struct Failed {
  absl::Status status;  // never OK
};

struct OpenSources {
  std::vector<std::string> names;
};

struct SourcesOpened {
  struct Source {
    uint32_t number = 0;
    uint64_t size = 0;
    Digest identity;
    Digest samples;
  };
  std::vector<Source> sources;
};

struct Load {
  struct List {
    std::string recipes;
    std::vector<uint32_t> sources;
    std::vector<uint32_t> roots;
    std::vector<std::string> names;  // as many as roots
  };
  std::string owner;
  std::vector<List> lists;
  bool if_there = false;  // of these what is resident, and nothing is made
};

struct Progress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  std::string tensor;
};

struct Loaded {
  struct Tensor {
    Digest digest;
    Digest stamp;
    uint32_t segment = 0;  // less than segments.size()
    uint64_t offset = 0;
  };
  struct Segment {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  std::vector<Tensor> tensors;  // in the order they were asked for; if_there: those that are
  std::vector<Segment> segments;
};

struct More {
  uint32_t first = 0;
};
struct Descriptors {};
struct Cancel {};

struct Release {
  std::vector<uint64_t> segments;
  std::vector<uint32_t> grants;  // as many
};

struct GetState {};

// What a client of the daemon holds.
struct ClientState {
  uint32_t pid = 0;
  uint32_t uid = 0;
  std::string program;
  uint32_t sources = 0;
  std::vector<std::string> owners;
  uint64_t leased_segments = 0;
  uint64_t leased_bytes = 0;
  std::string loading;  // what its load waits for or evaluates; empty: no load is under way
  std::vector<uint64_t> segments;  // that it leases, by number
};

// A segment of the daemon's memory.
struct SegmentState {
  uint64_t number = 0;
  std::string name;
  uint64_t bytes = 0;         // its length; 0 while it is filled
  uint64_t memory_bytes = 0;  // what it takes of the machine
  uint64_t tensors = 0;
  bool kept = false;  // by the service manager, for the next daemon
};

struct State {
  std::string snapshot;  // DecodeSnapshot's
  std::vector<ClientState> clients;
  uint64_t evaluations = 0;
  uint64_t transformations = 0;
  uint64_t evictions = 0;
  uint64_t cache_hits = 0;
  uint64_t waits = 0;
  uint64_t budget = 0;
  uint64_t budget_used = 0;
  uint64_t memory_bytes = 0;  // what the shared memory takes of the machine
  uint32_t pid = 0;
  std::vector<std::string> audit;  // discrepancies, a line each
  std::vector<SegmentState> segments;
  uint64_t adopted = 0;                    // tensors, from an earlier daemon
  std::vector<std::string> kept_problems;  // why something is not kept for the next one
};

struct SetBudget {
  uint64_t bytes = 0;
};
struct Done {};

using Message = std::variant<Hello, Failed, OpenSources, SourcesOpened, Load, Progress, Loaded,
                             More, Descriptors, Cancel, Release, GetState, State, SetBudget, Done>;

std::string Encode(const Message& message);
absl::StatusOr<Message> Decode(absl::string_view bytes);
// For messages about messages: "Load".
absl::string_view NameOf(const Message& message);

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_WIRE_MESSAGES_H_
