#include "npubank/lazy_tensor/digest.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "absl/status/status.h"
#include "npubank/lazy_tensor/element_type.h"
#include "npubank/lazy_tensor/shape.h"

namespace npubank {
namespace {

TEST(Digest, FieldsThatAddUpToTheSameBytesStayApart) {
  const std::vector<int64_t> one = {1};
  const std::vector<int64_t> one_two = {1, 2};
  const std::vector<int64_t> none;
  std::set<Digest> digests;
  size_t count = 0;
  const auto add = [&](const DigestBuilder& builder) {
    digests.insert(builder.Finish());
    EXPECT_EQ(digests.size(), ++count);
  };
  add(DigestBuilder(""));
  add(DigestBuilder("a"));
  add(DigestBuilder("ab"));
  add(DigestBuilder("a").Add("b"));
  add(DigestBuilder("").Add("ab"));
  add(DigestBuilder("a").Add(1));
  add(DigestBuilder("a").Add(one));
  add(DigestBuilder("a").Add(one_two));
  add(DigestBuilder("a").Add(1).Add(2));
  add(DigestBuilder("a").Add(2).Add(1));
  add(DigestBuilder("a").Add(one).Add(2));
  add(DigestBuilder("a").Add(none));
  add(DigestBuilder("a").Add(none).Add(none));
  add(DigestBuilder("a").Add(Digest{1, 2}));
  add(DigestBuilder("a").Add(Digest{2, 1}));
  add(DigestBuilder("a").Add(""));
}

// These are in files of users: a change of the digest is a change of every stored cache and
// snapshot.
TEST(Digest, IsTheSameInEveryProcessAndVersion) {
  const std::vector<int64_t> dims = {4096, -1};
  const Digest digest =
      DigestBuilder("golden").Add(7).Add("text").Add(dims).Add(Digest{3, 4}).Finish();
  EXPECT_EQ(digest.ToHex(), "e9510f20479737929e0aed84b7aa569c");
  EXPECT_EQ(Uid::Of(digest).ToHex(), digest.ToHex().substr(0, 16));
}

TEST(Digest, HexHasAllItsZeros) {
  EXPECT_EQ((Digest{1, 0xab}).ToHex(), "000000000000000100000000000000ab");
  EXPECT_EQ(Uid{0xf}.ToHex(), "000000000000000f");
}

TEST(ElementType, NamesAndNumbersLeadBackToTheType) {
  int known = 0;
  for (uint32_t number = 0; number < 300; ++number) {
    const std::optional<ElementType> type = ElementTypeFromNumber(number);
    if (!type.has_value()) continue;
    ++known;
    EXPECT_EQ(static_cast<uint32_t>(*type), number);
    EXPECT_EQ(ElementTypeFromName(ElementTypeName(*type)), type);
  }
  EXPECT_EQ(known, 18);
  EXPECT_EQ(ElementTypeFromName("f32"), std::nullopt);
  EXPECT_EQ(ElementTypeFromName(""), std::nullopt);
  EXPECT_EQ(BitWidth(ElementType::kNF4), 4);
  EXPECT_EQ(BitWidth(ElementType::kBF16), 16);
}

TEST(Shape, CountsElementsAndRefusesWhatCannotBeCounted) {
  EXPECT_EQ(Shape::Create({})->num_elements(), 1);
  EXPECT_EQ(Shape::Create({3, 0, 5})->num_elements(), 0);
  EXPECT_EQ(Shape::Create({1 << 30, 1 << 30, 4})->num_elements(), int64_t{1} << 62);
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{-1},
                                         {int64_t{1} << 62, 2},
                                         {INT64_MAX},
                                         {0, INT64_MAX, INT64_MAX},
                                         {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_EQ(Shape::Create(dims).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TensorType, CountsBytesHalfBytesRoundedUp) {
  EXPECT_EQ(TensorType::Create(ElementType::kBF16, *Shape::Create({4096, 4096}))->bytes(),
            33554432);
  EXPECT_EQ(TensorType::Create(ElementType::kU4, *Shape::Create({3}))->bytes(), 2);
  EXPECT_EQ(TensorType::Create(ElementType::kI4, *Shape::Create({0}))->bytes(), 0);
  EXPECT_EQ(
      TensorType::Create(ElementType::kF16, *Shape::Create({int64_t{1} << 62})).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TensorType::Create(ElementType::kBF16, *Shape::Create({2, 3}))->ToString(),
            "BF16[2,3]");
}

}  // namespace
}  // namespace npubank
