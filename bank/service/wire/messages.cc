#include "npubank/bank/service/wire/messages.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "npubank/bank/service/wire/protocol_generated.h"
#include "npubank/lazy_tensor/base/byte_budget.h"
#include "npubank/lazy_tensor/base/flatbuffer.h"
#include "npubank/lazy_tensor/base/status_macros.h"

namespace npubank::service {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
using Offset = flatbuffers::Offset<void>;
using Texts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

// Each message's number is its place in the variant, and one more.
static_assert(static_cast<int>(fbs::Body::Done) == std::variant_size_v<Message>);

struct Encoder {
  Builder& out;

  Offset operator()(const Hello& hello) const {
    return fbs::CreateHello(out, hello.protocol, hello.recipe_codec, hello.result_revision,
                            out.CreateString(hello.program))
        .Union();
  }
  Offset operator()(const Failed& failed) const {
    return fbs::CreateFailed(out, static_cast<uint32_t>(failed.status.code()),
                             out.CreateString(std::string(failed.status.message())))
        .Union();
  }
  Offset operator()(const OpenSources& open) const {
    return fbs::CreateOpenSources(out, out.CreateVectorOfStrings(open.names)).Union();
  }
  Offset operator()(const SourcesOpened& opened) const {
    std::vector<flatbuffers::Offset<fbs::OpenedSource>> sources;
    for (const auto& source : opened.sources) {
      sources.push_back(fbs::CreateOpenedSource(out, source.number, source.size,
                                                source.identity.high, source.identity.low,
                                                source.samples.high, source.samples.low));
    }
    return fbs::CreateSourcesOpened(out, out.CreateVector(sources)).Union();
  }
  Offset operator()(const Load& load) const {
    std::vector<flatbuffers::Offset<fbs::WantedList>> lists;
    for (const Load::List& list : load.lists) {
      const auto recipes = out.CreateVector(reinterpret_cast<const uint8_t*>(list.recipes.data()),
                                            list.recipes.size());
      lists.push_back(fbs::CreateWantedList(out, recipes, out.CreateVector(list.sources),
                                            out.CreateVector(list.roots),
                                            out.CreateVectorOfStrings(list.names)));
    }
    return fbs::CreateLoad(out, out.CreateString(load.owner), out.CreateVector(lists),
                           load.if_there)
        .Union();
  }
  Offset operator()(const Progress& progress) const {
    return fbs::CreateProgress(out, progress.bytes_done, progress.bytes_total,
                               out.CreateString(progress.tensor))
        .Union();
  }
  Offset operator()(const Loaded& loaded) const {
    std::vector<flatbuffers::Offset<fbs::LeasedTensor>> tensors;
    for (const Loaded::Tensor& tensor : loaded.tensors) {
      tensors.push_back(fbs::CreateLeasedTensor(out, tensor.digest.high, tensor.digest.low,
                                                tensor.stamp.high, tensor.stamp.low, tensor.segment,
                                                tensor.offset));
    }
    std::vector<flatbuffers::Offset<fbs::LeasedSegment>> segments;
    for (const Loaded::Segment& segment : loaded.segments) {
      segments.push_back(fbs::CreateLeasedSegment(out, segment.number, segment.bytes));
    }
    return fbs::CreateLoaded(out, out.CreateVector(tensors), out.CreateVector(segments)).Union();
  }
  Offset operator()(const More& more) const { return fbs::CreateMore(out, more.first).Union(); }
  Offset operator()(const Descriptors&) const { return fbs::CreateDescriptors(out).Union(); }
  Offset operator()(const Cancel&) const { return fbs::CreateCancel(out).Union(); }
  Offset operator()(const Release& release) const {
    const auto segments = out.CreateVector(release.segments);
    return fbs::CreateRelease(out, segments, out.CreateVector(release.grants)).Union();
  }
  Offset operator()(const GetState&) const { return fbs::CreateGetState(out).Union(); }
  Offset operator()(const State& state) const;
  Offset operator()(const SetBudget& set) const {
    return fbs::CreateSetBudget(out, set.bytes).Union();
  }
  Offset operator()(const Done&) const { return fbs::CreateDone(out).Union(); }
};

Offset Encoder::operator()(const State& state) const {
  std::vector<flatbuffers::Offset<fbs::ClientState>> clients;
  for (const ClientState& client : state.clients) {
    clients.push_back(fbs::CreateClientState(
        out, client.pid, client.uid, out.CreateString(client.program), client.sources,
        out.CreateVectorOfStrings(client.owners), client.leased_segments, client.leased_bytes,
        out.CreateString(client.loading), out.CreateVector(client.segments)));
  }
  std::vector<flatbuffers::Offset<fbs::SegmentState>> segments;
  for (const SegmentState& segment : state.segments) {
    segments.push_back(fbs::CreateSegmentState(out, segment.number, out.CreateString(segment.name),
                                               segment.bytes, segment.memory_bytes, segment.tensors,
                                               segment.kept));
  }
  const auto snapshot = out.CreateVector(reinterpret_cast<const uint8_t*>(state.snapshot.data()),
                                         state.snapshot.size());
  return fbs::CreateState(out, snapshot, out.CreateVector(clients), state.evaluations,
                          state.transformations, state.evictions, state.cache_hits, state.waits,
                          state.budget, state.budget_used, state.memory_bytes, state.pid,
                          out.CreateVectorOfStrings(state.audit), out.CreateVector(segments),
                          state.adopted, out.CreateVectorOfStrings(state.kept_problems))
      .Union();
}

// What a message is made of is paid for before it is copied: tables may share their parts.
class Reader {
 public:
  explicit Reader(size_t message_bytes)
      : budget_(4 * message_bytes + 4096, "parts, some of which are used more than once") {}

  absl::StatusOr<Message> operator()(const fbs::Hello& from) {
    Hello hello{from.protocol(), from.recipe_codec(), from.result_revision(), ""};
    NPUBANK_RETURN_IF_ERROR(Text(from.program(), hello.program));
    return hello;
  }
  absl::StatusOr<Message> operator()(const fbs::Failed& from) {
    std::string message;
    NPUBANK_RETURN_IF_ERROR(Text(from.message(), message, kMostMessageBytes));
    const bool known = from.code() > 0 && from.code() <= 16;
    return Failed{absl::Status(
        known ? static_cast<absl::StatusCode>(from.code()) : absl::StatusCode::kUnknown, message)};
  }
  absl::StatusOr<Message> operator()(const fbs::OpenSources& from) {
    OpenSources open;
    NPUBANK_RETURN_IF_ERROR(ReadTexts(from.names(), kMostSourcesOfList, open.names));
    return open;
  }
  absl::StatusOr<Message> operator()(const fbs::SourcesOpened& from) {
    SourcesOpened opened;
    NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from.sources()), kMostSourcesOfList, "sources"));
    for (uint32_t i = 0; i < SizeOf(from.sources()); ++i) {
      const fbs::OpenedSource& source = *from.sources()->Get(i);
      opened.sources.push_back({.number = source.number(),
                                .size = source.size(),
                                .identity = {source.identity_high(), source.identity_low()},
                                .samples = {source.samples_high(), source.samples_low()}});
    }
    return opened;
  }
  absl::StatusOr<Message> operator()(const fbs::Load& from) {
    Load load;
    NPUBANK_RETURN_IF_ERROR(Text(from.owner(), load.owner));
    load.if_there = from.if_there();
    NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from.lists()), kMostLists, "recipe lists"));
    size_t tensors = 0;
    for (uint32_t i = 0; i < SizeOf(from.lists()); ++i) {
      NPUBANK_RETURN_IF_ERROR(ReadList(*from.lists()->Get(i), load.lists.emplace_back()));
      tensors += load.lists.back().roots.size();
      NPUBANK_RETURN_IF_ERROR(Bound(tensors, kMostTensors, "tensors"));
    }
    return load;
  }
  absl::StatusOr<Message> operator()(const fbs::Progress& from) {
    Progress progress{from.bytes_done(), from.bytes_total(), ""};
    NPUBANK_RETURN_IF_ERROR(Text(from.tensor(), progress.tensor));
    return progress;
  }
  absl::StatusOr<Message> operator()(const fbs::Loaded& from);
  absl::StatusOr<Message> operator()(const fbs::More& from) { return More{from.first()}; }
  absl::StatusOr<Message> operator()(const fbs::Descriptors&) { return Descriptors{}; }
  absl::StatusOr<Message> operator()(const fbs::Cancel&) { return Cancel{}; }
  absl::StatusOr<Message> operator()(const fbs::Release& from) {
    Release release;
    if (SizeOf(from.segments()) != SizeOf(from.grants())) {
      return absl::InvalidArgumentError("a Release whose counts are not as many as its segments");
    }
    NPUBANK_RETURN_IF_ERROR(Numbers(from.segments(), kMostTensors, release.segments));
    NPUBANK_RETURN_IF_ERROR(Numbers(from.grants(), kMostTensors, release.grants));
    return release;
  }
  absl::StatusOr<Message> operator()(const fbs::GetState&) { return GetState{}; }
  absl::StatusOr<Message> operator()(const fbs::State& from);
  absl::StatusOr<Message> operator()(const fbs::SetBudget& from) { return SetBudget{from.bytes()}; }
  absl::StatusOr<Message> operator()(const fbs::Done&) { return Done{}; }

 private:
  static constexpr size_t kMostMessageBytes = 1 << 16;

  static absl::Status Bound(size_t count, size_t most, absl::string_view what) {
    if (count <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("a message with ", count, " ", what, ", of at most ", most));
  }
  absl::Status Text(const flatbuffers::String* from, std::string& text,
                    size_t most = kMostNameBytes) {
    const absl::string_view found = TextOf(from);
    NPUBANK_RETURN_IF_ERROR(Bound(found.size(), most, "characters in a name"));
    NPUBANK_RETURN_IF_ERROR(budget_.Spend(found.size()));
    text = std::string(found);
    return absl::OkStatus();
  }
  absl::Status ReadTexts(const Texts* from, size_t most, std::vector<std::string>& texts) {
    NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from), most, "names"));
    for (uint32_t i = 0; i < SizeOf(from); ++i) {
      NPUBANK_RETURN_IF_ERROR(Text(from->Get(i), texts.emplace_back()));
    }
    return absl::OkStatus();
  }
  absl::Status Bytes(const flatbuffers::Vector<uint8_t>* from, std::string& bytes) {
    NPUBANK_RETURN_IF_ERROR(budget_.Spend(SizeOf(from)));
    if (from != nullptr) bytes.assign(reinterpret_cast<const char*>(from->data()), from->size());
    return absl::OkStatus();
  }
  // Bytewise: the verifier lets a vector of eight-byte numbers begin at any multiple of four.
  template <typename Number>
  absl::Status Numbers(const flatbuffers::Vector<Number>* from, size_t most,
                       std::vector<Number>& numbers) {
    static_assert(FLATBUFFERS_LITTLEENDIAN, "numbers are copied as they are");
    NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from), most, "numbers"));
    NPUBANK_RETURN_IF_ERROR(budget_.Spend(SizeOf(from) * sizeof(Number)));
    numbers.resize(SizeOf(from));
    if (!numbers.empty()) {
      std::memcpy(numbers.data(), from->Data(), numbers.size() * sizeof(Number));
    }
    return absl::OkStatus();
  }
  absl::Status ReadList(const fbs::WantedList& from, Load::List& list) {
    NPUBANK_RETURN_IF_ERROR(Bytes(from.recipes(), list.recipes));
    NPUBANK_RETURN_IF_ERROR(Numbers(from.sources(), kMostSourcesOfList, list.sources));
    NPUBANK_RETURN_IF_ERROR(Numbers(from.roots(), kMostTensors, list.roots));
    NPUBANK_RETURN_IF_ERROR(ReadTexts(from.names(), kMostTensors, list.names));
    if (list.names.size() == list.roots.size()) return absl::OkStatus();
    return absl::InvalidArgumentError("a Load whose names are not as many as its tensors");
  }

  ByteBudget budget_;
};

absl::StatusOr<Message> Reader::operator()(const fbs::Loaded& from) {
  Loaded loaded;
  NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from.segments()), kMostTensors, "segments"));
  NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from.tensors()), kMostTensors, "tensors"));
  for (uint32_t i = 0; i < SizeOf(from.segments()); ++i) {
    const fbs::LeasedSegment& segment = *from.segments()->Get(i);
    loaded.segments.push_back({segment.number(), segment.bytes()});
  }
  for (uint32_t i = 0; i < SizeOf(from.tensors()); ++i) {
    const fbs::LeasedTensor& tensor = *from.tensors()->Get(i);
    if (tensor.segment() >= loaded.segments.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor in segment ", tensor.segment(), " of ", loaded.segments.size()));
    }
    loaded.tensors.push_back({.digest = {tensor.digest_high(), tensor.digest_low()},
                              .stamp = {tensor.stamp_high(), tensor.stamp_low()},
                              .segment = tensor.segment(),
                              .offset = tensor.offset()});
  }
  return loaded;
}

absl::StatusOr<Message> Reader::operator()(const fbs::State& from) {
  State state;
  NPUBANK_RETURN_IF_ERROR(Bytes(from.snapshot(), state.snapshot));
  NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from.clients()), kMostTensors, "clients"));
  for (uint32_t i = 0; i < SizeOf(from.clients()); ++i) {
    const fbs::ClientState& of = *from.clients()->Get(i);
    ClientState& client = state.clients.emplace_back();
    client.pid = of.pid();
    client.uid = of.uid();
    NPUBANK_RETURN_IF_ERROR(Text(of.program(), client.program));
    client.sources = of.sources();
    NPUBANK_RETURN_IF_ERROR(ReadTexts(of.owners(), kMostTensors, client.owners));
    client.leased_segments = of.leased_segments();
    client.leased_bytes = of.leased_bytes();
    NPUBANK_RETURN_IF_ERROR(Text(of.loading(), client.loading));
    NPUBANK_RETURN_IF_ERROR(Numbers(of.segments(), kMostTensors, client.segments));
  }
  state.evaluations = from.evaluations();
  state.transformations = from.transformations();
  state.evictions = from.evictions();
  state.cache_hits = from.cache_hits();
  state.waits = from.waits();
  state.budget = from.budget();
  state.budget_used = from.budget_used();
  state.memory_bytes = from.memory_bytes();
  state.pid = from.pid();
  NPUBANK_RETURN_IF_ERROR(ReadTexts(from.audit(), kMostTensors, state.audit));
  NPUBANK_RETURN_IF_ERROR(Bound(SizeOf(from.segments()), kMostTensors, "segments"));
  for (uint32_t i = 0; i < SizeOf(from.segments()); ++i) {
    const fbs::SegmentState& of = *from.segments()->Get(i);
    SegmentState& segment = state.segments.emplace_back();
    segment.number = of.number();
    NPUBANK_RETURN_IF_ERROR(Text(of.name(), segment.name));
    segment.bytes = of.bytes();
    segment.memory_bytes = of.memory_bytes();
    segment.tensors = of.tensors();
    segment.kept = of.kept();
  }
  state.adopted = from.adopted();
  NPUBANK_RETURN_IF_ERROR(ReadTexts(from.kept_problems(), kMostTensors, state.kept_problems));
  return state;
}

absl::StatusOr<Message> ReadBody(const fbs::Message& message, size_t bytes) {
  Reader read(bytes);
  if (message.body() == nullptr) return absl::InvalidArgumentError("a message that says nothing");
  switch (message.body_type()) {
#define NPUBANK_CASE(name) \
  case fbs::Body::name:    \
    return read(*message.body_as_##name());
    NPUBANK_CASE(Hello)
    NPUBANK_CASE(Failed)
    NPUBANK_CASE(OpenSources)
    NPUBANK_CASE(SourcesOpened)
    NPUBANK_CASE(Load)
    NPUBANK_CASE(Progress)
    NPUBANK_CASE(Loaded)
    NPUBANK_CASE(More)
    NPUBANK_CASE(Descriptors)
    NPUBANK_CASE(Cancel)
    NPUBANK_CASE(Release)
    NPUBANK_CASE(GetState)
    NPUBANK_CASE(State)
    NPUBANK_CASE(SetBudget)
    NPUBANK_CASE(Done)
#undef NPUBANK_CASE
    default:
      return absl::InvalidArgumentError(absl::StrCat("a message of kind ",
                                                     static_cast<int>(message.body_type()),
                                                     ", which this program does not know"));
  }
}

}  // namespace

std::string Encode(const Message& message) {
  Builder builder;
  const Offset body = std::visit(Encoder{builder}, message);
  const auto type = static_cast<fbs::Body>(message.index() + 1);
  builder.Finish(fbs::CreateMessage(builder, type, body), fbs::MessageIdentifier());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

absl::StatusOr<Message> Decode(absl::string_view bytes) {
  constexpr FlatbufferLimits kLimits{.bytes = 64 << 20, .tables = 1 << 18};
  NPUBANK_ASSIGN_OR_RETURN(
      const auto root,
      FlatbufferRoot<fbs::Message>::Open(bytes, fbs::MessageIdentifier(), "message", kLimits));
  return ReadBody(*root, bytes.size());
}

absl::string_view NameOf(const Message& message) {
  return fbs::EnumNameBody(static_cast<fbs::Body>(message.index() + 1));
}

}  // namespace npubank::service
