// The plain C boundary of the native kernel and what every part of it shares.
// Everything arrives in one struct of pointers and strides (in elements), so no header of torch or Python is needed.
#pragma once
#include <stdint.h>

#include <atomic>
#include <thread>

namespace strop {

enum Kind : int32_t { KIND_SOFTMAX = 0, KIND_SPARSEMAX = 1, KIND_ENTMAX15 = 2, KIND_STATS = 3 };
enum BetaFrom : int32_t { BETA_CONSTANT = 0, BETA_ROWS = 1, BETA_ENTROPY = 2 };

struct Strides { int64_t batch, head, row, col; };

// Mirrored field by field in abi.py; ABI_VERSION guards against a stale build.
struct Args {
    const void *q, *k, *v;
    void *out;
    const uint8_t *keep;                    // may be null: every key is visible
    const float *bias, *beta_rows, *sink;   // each may be null
    int64_t *n_keys;                        // [B, H, n_q] contiguous; null when statistics are not wanted
    float *max, *min, *logsumexp, *mean;    // as n_keys
    float *rows;                            // [PLANES, B, H, n_q]: what a backward pass needs; null when none will come
    Strides qs, ks, vs, os, keeps, biass, betas, sinks;
    int64_t batch, heads, group, n_q, n_k, d, dv;   // query head h reads key head h / group
    int64_t threads;
    int64_t diagonal;                       // row i sees keys j <= i + diagonal, when causal
    int32_t causal, bf16, kind, beta_from;
    float scale, softcap, beta;             // softcap 0: none
    int32_t n_coefficients;
    double coefficients[16];                // of the polynomial in the entropy, highest power first
    double threshold, hold_at;              // beta = 1 at or below threshold; entropies past hold_at count as hold_at
    int32_t *gaps;                          // [B, H, n_q, GAP_ROW]; null where gaps are not counted, which only KIND_STATS does
};
constexpr int64_t ABI_VERSION = 4;
constexpr int GAP_BINS = 128, GAP_ROW = GAP_BINS + 1, GAPS_IN_NAT = 8;   // bins of an eighth of a nat, and what is beyond

// Planes of `rows`, with y = e - max. A row that only the careful path can do has NaN for its max; one that sees nothing has zeros.
enum Plane { PLANE_TOP, PLANE_BETA, PLANE_TOTAL, PLANE_SUM, PLANE_MIDDLE, PLANES };   // max, β·log2(e) or τ, share/Σ w, 1/Σ exp(y), mean - max

// What flows back into a call, and the gradients to fill; each pointer may be null: not given, or not wanted. Gradients of bias, key
// and value are added to what is there. Mirrored in abi.py.
struct Flow {
    const void *d_out;
    const float *d_max, *d_min, *d_logsumexp, *d_mean;   // [B, H, n_q] contiguous
    void *d_q;
    float *d_k, *d_v, *d_bias, *d_beta, *d_sink;         // the last two [B, H, n_q] contiguous
    Strides d_outs, d_qs, d_ks, d_vs, d_biass;
    int32_t slope;                                       // gradients reach the entropy through β
};

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

// Rows of one key head add to the same gradients, each unit in its turn, so that sums have one order on any number of threads.
// Units pass over key blocks from the last to the first: `passed` of a unit is the last block it has done (-1: all), and its follower
// stays behind it. A unit waits only for one that was taken earlier, so somebody can always go on.
struct Turns {
    std::atomic<int32_t> *passed;   // of every unit, by chain and place in the chain
    int64_t chains, length;         // a chain is a key head, or all heads where they share a bias, or a unit where nothing is shared

    void wait(int64_t unit, int64_t block) const {
        if (unit % length == 0) return;
        for (int spins = 0; passed[unit - 1].load(std::memory_order_acquire) > block; spins++)
            if (spins > 64) std::this_thread::yield();
    }
    void pass(int64_t unit, int64_t block) { passed[unit].store((int32_t)block, std::memory_order_release); }
};

struct Kernels {   // one set per instruction set
    const char *name;
    int64_t (*block_units)(const Args &);
    int64_t (*block_scratch)(const Args &);              // bytes a thread
    void (*block_unit)(const Args &, int64_t unit, void *scratch);
    bool (*decodes)(const Args &);                       // few queries: the key-split path
    int64_t (*decode_shared)(const Args &);              // bytes a call
    int64_t (*decode_units)(const Args &, int phase);
    void (*decode_unit)(const Args &, int phase, int64_t unit, void *shared);
    int64_t (*back_units)(const Args &);
    int64_t (*back_scratch)(const Args &);               // bytes a thread
    void (*back_unit)(const Args &, const Flow &, int64_t unit, void *scratch, Turns &);
};

}  // namespace strop
