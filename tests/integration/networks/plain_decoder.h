// PlainDecoder: what a made-up model of any network computes, by the book: whole matrices in plain loops of double
// numbers, every position from all those before it, no cache, no chunks, no plan. Slow, and meant to be obviously right.
//
//   PlainDecoder plain(*checkpoint, shape);
//   std::vector<double> logits = plain.Logits({1, 5, 9});    // of the last token
//
// Only a weight's numbers are the product's: those that its recipe stands for, by the name that a folder has. What the
// network is comes from the shape that made the model, not from its config; GGUF files of Llama have the order of Meta's
// rows. A weight that cannot be read fails the test.
#ifndef NPUBANK_TESTS_INTEGRATION_NETWORKS_PLAIN_DECODER_H_
#define NPUBANK_TESTS_INTEGRATION_NETWORKS_PLAIN_DECODER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npubank/lazy_tensor/formats/checkpoint.h"
#include "npubank/tools/checkpoints/checkpoint_writer.h"

namespace npubank {

class PlainDecoder {
 public:
  PlainDecoder(const Checkpoint& model, const CheckpointShape& shape);

  std::vector<double> Logits(const std::vector<int32_t>& tokens);

 private:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  // Stored numbers, row by row; a vector is one row.
  const Rows& Weight(const std::string& name);
  Row Norm(const Row& x, const std::string& name);
  // Rows [first, first + out) of the matrix times x; out 0: all of them.
  Row Times(const std::string& name, const Row& x, size_t first = 0, size_t out = 0);

  Row Project(const std::string& layer, char which, const Row& x);
  void Turn(Row& heads, size_t position) const;
  Row Attend(const Row& query, const Rows& keys, const Rows& values, size_t position) const;
  Row FeedForward(const std::string& layer, const Row& x);
  double Radians(size_t pair) const;

  const Checkpoint& model_;
  const CheckpointShape shape_;
  const size_t head_dim_;
  const bool gguf_;
  std::map<std::string, Rows> weights_;
};

}  // namespace npubank

#endif  // NPUBANK_TESTS_INTEGRATION_NETWORKS_PLAIN_DECODER_H_
