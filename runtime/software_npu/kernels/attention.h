// Attention over a cache: scores and mix, for the rows that count.
//
// Row r stands at position start + r and sees the cache up to that position, or the last `window` positions of it;
// nothing else is read. Sums of one output have one order whatever the number of rows.
#ifndef NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ATTENTION_H_
#define NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ATTENTION_H_

#include <cstdint>

namespace npubank::software_npu {

struct AttentionOperands {
  int64_t start = 0;        // position of the first row
  int64_t count = 0;        // rows that count
  int64_t rows = 0;         // S of the scores
  int64_t positions = 0;    // N
  int64_t width = 0;        // of a row of q or out
  int64_t cache_width = 0;  // of a row of the cache
  int64_t head_dim = 0;
  int64_t heads = 0;
  int64_t first_head = 0;
  int64_t heads_per_kv_head = 1;
  int64_t window = 0;       // positions that a row sees, its own the last of them; 0: all up to it
};

// scores[h, r, p] = scale * q[r, head first_head + h] . keys[p], for every p that the row sees.
void AttentionScores(const AttentionOperands& a, const float* q, const float* keys, float scale,
                     float* scores);

// Each row of scores becomes probabilities of the positions that it sees, and 0 elsewhere. In place is fine.
void CausalSoftmax(const AttentionOperands& a, const float* scores, float* probabilities);

// out[r, head first_head + h] = the sum over p of probabilities[h, r, p] * values[p].
void AttentionMix(const AttentionOperands& a, const float* probabilities, const float* values,
                  float* out);

}  // namespace npubank::software_npu

#endif  // NPUBANK_RUNTIME_SOFTWARE_NPU_KERNELS_ATTENTION_H_
