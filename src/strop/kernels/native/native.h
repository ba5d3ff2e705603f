// The plain C boundary of the native kernel and what every part of it shares.
// Everything arrives in one struct of pointers and strides (in elements), so no header of torch or Python is needed.
#pragma once
#include <stdint.h>

namespace strop {

enum Kind : int32_t { KIND_SOFTMAX = 0, KIND_SPARSEMAX = 1, KIND_ENTMAX15 = 2, KIND_STATS = 3 };
enum BetaFrom : int32_t { BETA_CONSTANT = 0, BETA_ROWS = 1, BETA_ENTROPY = 2 };

struct Strides { int64_t batch, head, row, col; };

// Mirrored field by field in native_abi.py; ABI_VERSION guards against a stale build.
struct Args {
    const void *q, *k, *v;
    void *out;
    const uint8_t *keep;                    // may be null: every key is visible
    const float *bias, *beta_rows, *sink;   // each may be null
    int64_t *n_keys;                        // [B, H, n_q] contiguous; null when statistics are not wanted
    float *max, *min, *logsumexp, *mean;    // as n_keys
    Strides qs, ks, vs, os, keeps, biass, betas, sinks;
    int64_t batch, heads, group, n_q, n_k, d, dv;   // query head h reads key head h / group
    int64_t threads;
    int64_t diagonal;                       // row i sees keys j <= i + diagonal, when causal
    int32_t causal, bf16, kind, beta_from;
    float scale, softcap, beta;             // softcap 0: none
    int32_t n_coefficients;
    double coefficients[16];                // of the polynomial in the entropy, highest power first
    double threshold, hold_at;              // beta = 1 at or below threshold; entropies past hold_at count as hold_at
};
constexpr int64_t ABI_VERSION = 2;

// A hidden key's logit: finite, so that arithmetic on it stays finite, and no sum of products lands on this exact value.
constexpr float HIDDEN = -1.0731729e38f;
// Rows whose maximum is at or below this, or not finite, are recomputed by the careful scalar path.
constexpr float DEEP = -5e37f;
constexpr int BLOCK_KEYS = 128;

// Raw-logit statistics of one row, relative to `max`, in bits: y = (x - max)·log2(e), sum = Σ 2^y, moment = Σ y·2^y.
struct RowSums { float max, min, sum, moment; int64_t n_keys; };

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Position of one query row in the problem.
struct Row { int64_t b, h, i; };

inline int64_t visible_end(const Args &a, int64_t row) {   // keys at or past this index are hidden by causality
    return a.causal ? smaller(a.n_k, larger(0, row + a.diagonal + 1)) : a.n_k;
}
inline float load_bf16(uint16_t bits) {
    union { uint32_t u; float f; } x = {uint32_t(bits) << 16};
    return x.f;
}
inline uint16_t store_bf16(float value) {   // round to nearest, ties to even; NaN stays NaN
    union { float f; uint32_t u; } x = {value};
    if (value != value) return uint16_t((x.u >> 16) | 0x40);
    return uint16_t((x.u + 0x7fffu + ((x.u >> 16) & 1u)) >> 16);
}

struct Kernels {   // one set per instruction set
    const char *name;
    int64_t (*block_units)(const Args &);
    int64_t (*block_scratch)(const Args &);              // bytes a thread
    void (*block_unit)(const Args &, int64_t unit, void *scratch);
    bool (*decodes)(const Args &);                       // few queries: the key-split path
    int64_t (*decode_shared)(const Args &);              // bytes a call
    int64_t (*decode_units)(const Args &, int phase);
    void (*decode_unit)(const Args &, int phase, int64_t unit, void *shared);
};

}  // namespace strop
