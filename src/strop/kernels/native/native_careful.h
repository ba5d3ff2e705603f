// One row at a time in double precision, as the definition says and with IEEE's own NaN and infinities: for rows whose
// logits or values are not finite, or too large for the fast path's mark, or whose β is no ordinary positive number.
#pragma once
#include <math.h>
#include <string.h>

#include "native.h"

namespace strop {

inline float element(const Args &a, const void *base, int64_t at) {
    return a.bf16 ? load_bf16(((const uint16_t *)base)[at]) : ((const float *)base)[at];
}
inline int64_t row_index(const Args &a, Row r) { return (r.b * a.heads + r.h) * a.n_q + r.i; }
inline bool sees(const Args &a, Row r, int64_t j) {
    return j < visible_end(a, r.i) &&
           (!a.keep || a.keep[r.b * a.keeps.batch + r.h * a.keeps.head + r.i * a.keeps.row + j * a.keeps.col]);
}

inline double beta_of_row(const Args &a, Row r, double entropy) {
    if (a.beta_from == BETA_CONSTANT) return a.beta;
    if (a.beta_from == BETA_ROWS) return a.beta_rows[r.b * a.betas.batch + r.h * a.betas.head + r.i * a.betas.row];
    if (entropy <= a.threshold) return 1.0;
    double x = entropy > a.hold_at ? a.hold_at : entropy, p = a.coefficients[0];
    for (int i = 1; i < a.n_coefficients; i++) p = p * x + a.coefficients[i];
    return p < 1.0 ? 1.0 : p;   // NaN stays NaN
}

// log Σ exp(β·e) from the sum relative to its top and from β·log2(e).
inline double tempered_lse(double top, double beta_bits, double total) { return top * beta_bits * 0.6931471805599453 + log(total); }

inline double sink_factor(const Args &a, Row r, double lse) {
    if (!a.sink) return 1.0;
    double sink = a.sink[r.b * a.sinks.batch + r.h * a.sinks.head + r.i * a.sinks.row];
    return 1.0 / (1.0 + exp(sink - lse));
}

inline void write_fields(const Args &a, Row r, int64_t n_keys, double max, double min, double lse, double mean) {
    int64_t at = row_index(a, r);
    a.n_keys[at] = n_keys, a.max[at] = float(max), a.min[at] = float(min), a.logsumexp[at] = float(lse), a.mean[at] = float(mean);
}
inline void write_stats(const Args &a, Row r, const RowSums &s) {
    if (s.n_keys == 0) return write_fields(a, r, 0, -INFINITY, INFINITY, -INFINITY, 0.0);
    double mean = double(s.max) + double(s.moment) / double(s.sum) * 0.6931471805599453;
    write_fields(a, r, s.n_keys, s.max, s.min, double(s.max) + log(double(s.sum)), mean);
}

// For a backward pass; `total` is the keys' share beside a sink over Σ w.
inline void write_planes(const Args &a, Row r, double top, double beta, double total, double sum, double middle) {
    const double fields[PLANES] = {top, beta, total, sum, middle};
    for (int64_t i = 0; i < PLANES; i++) a.rows[i * a.batch * a.heads * a.n_q + row_index(a, r)] = float(fields[i]);
}
inline void write_planes(const Args &a, Row r, const RowSums &s, double beta, double share) {
    if (s.n_keys == 0) return write_planes(a, r, 0.0, 0.0, 0.0, 0.0, 0.0);
    bool summed = s.sum > 0;
    write_planes(a, r, s.max, beta, share, summed ? 1.0 / s.sum : 0.0, summed ? double(s.moment) / s.sum * 0.6931471805599453 : 0.0);
}

inline double careful_logit(const Args &a, Row r, int64_t j) {
    int64_t q = r.b * a.qs.batch + r.h * a.qs.head + r.i * a.qs.row;
    int64_t k = r.b * a.ks.batch + (r.h / a.group) * a.ks.head + j * a.ks.row;
    double dot = 0;
    for (int64_t c = 0; c < a.d; c++) dot += double(element(a, a.q, q + c)) * double(element(a, a.k, k + c));
    dot *= a.scale;
    if (a.softcap > 0) dot = a.softcap * tanh(dot / a.softcap);
    return a.bias ? dot + a.bias[r.b * a.biass.batch + r.h * a.biass.head + r.i * a.biass.row + j * a.biass.col] : dot;
}

struct CarefulSums { int64_t n_keys; double max, min, lse, mean, sum; };   // sum is relative to max

// Statistics of β·logits over the visible keys; NaN shows in every field that depends on it.
inline CarefulSums careful_sums(const Args &a, Row r, const double *x, double beta) {
    CarefulSums s{0, -INFINITY, INFINITY, -INFINITY, 0.0, 0.0};
    bool nan = false;
    for (int64_t j = 0; j < a.n_k; j++) {
        if (!sees(a, r, j)) continue;
        double e = beta * x[j];
        s.n_keys++, nan |= e != e;
        s.max = e > s.max ? e : s.max, s.min = e < s.min ? e : s.min;
    }
    if (!s.n_keys) return s;
    if (nan) s.max = s.min = NAN;
    double sum = 0, moment = 0;
    for (int64_t j = 0; j < a.n_k; j++) {
        if (!sees(a, r, j)) continue;
        double w = exp(beta * x[j] - s.max);
        sum += w, moment += w * (beta * x[j]);
    }
    s.lse = s.max + log(sum), s.mean = moment / sum, s.sum = sum;
    return s;
}

inline double careful_threshold(const Args &a, Row r, const double *x, double top, double alpha) {
    double tau = -1.0;
    for (int round = 0; round < 200; round++) {
        double first = 0, second = 0, count = 0;
        for (int64_t j = 0; j < a.n_k; j++) {
            double over = sees(a, r, j) ? alpha * (x[j] - top) - tau : 0.0;
            if (over > 0) first += over, second += over * over, count++;
        }
        double step = alpha == 1.0 ? (first - 1) / count : (second - 1) / (2 * first);
        if (!(step > 1e-15)) return tau;
        tau += step;
    }
    return tau;
}

// x[j] becomes the weight of key j.
inline void careful_weights(const Args &a, Row r, double *x, const CarefulSums &raw) {
    if (a.kind == KIND_SOFTMAX) {
        double beta = beta_of_row(a, r, fmax(raw.lse - raw.mean, 0.0) + 0.0 * (raw.lse - raw.mean));
        CarefulSums s = careful_sums(a, r, x, beta);
        double share = sink_factor(a, r, s.lse) / s.sum;   // not exp(e - lse): far from 0, lse rounds the sum away
        for (int64_t j = 0; j < a.n_k; j++) x[j] = sees(a, r, j) ? exp(beta * x[j] - s.max) * share : 0.0;
        return;
    }
    double alpha = a.kind == KIND_SPARSEMAX ? 1.0 : 0.5, tau = careful_threshold(a, r, x, raw.max, alpha);
    for (int64_t j = 0; j < a.n_k; j++) {
        double over = alpha * (x[j] - raw.max) - tau;
        x[j] = over < 0 || !sees(a, r, j) ? 0.0 : a.kind == KIND_SPARSEMAX ? over : over * over;
    }
}

// Values that are not finite reach every row that may see them, whatever their weight, and no other.
inline void careful_output(const Args &a, Row r, const double *w, double *out) {
    for (int64_t c = 0; c < a.dv; c++) out[c] = 0.0;
    int64_t v = r.b * a.vs.batch + (r.h / a.group) * a.vs.head, o = r.b * a.os.batch + r.h * a.os.head + r.i * a.os.row;
    for (int64_t j = 0; j < a.n_k; j++) {
        if (!sees(a, r, j)) continue;
        for (int64_t c = 0; c < a.dv; c++) {
            double x = element(a, a.v, v + j * a.vs.row + c);
            out[c] += x - x == 0 ? w[j] * x : x;
        }
    }
    for (int64_t c = 0; c < a.dv; c++)
        if (a.bf16) ((uint16_t *)a.out)[o + c] = store_bf16(float(out[c]));
        else ((float *)a.out)[o + c] = float(out[c]);
}

// As native_gaps.inl; a row that sees a NaN or +∞ has no keys near it.
inline void careful_gaps(const Args &a, Row r, const double *x, double max) {
    int32_t *counts = a.gaps + row_index(a, r) * GAP_ROW;
    memset(counts, 0, GAP_ROW * sizeof *counts);
    for (int64_t j = 0; j < a.n_k; j++) {
        float below = floorf(float(max) * GAPS_IN_NAT) - floorf(float(x[j]) * GAPS_IN_NAT);
        counts[sees(a, r, j) && below < GAP_BINS ? int(below) : GAP_BINS]++;
    }
}

inline int64_t careful_scratch(const Args &a) { return a.n_k + a.dv; }   // doubles
inline void careful_row(const Args &a, Row r, double *scratch) {
    for (int64_t j = 0; j < a.n_k; j++) scratch[j] = sees(a, r, j) ? careful_logit(a, r, j) : 0.0;
    CarefulSums raw = careful_sums(a, r, scratch, 1.0);
    if (a.n_keys) write_fields(a, r, raw.n_keys, raw.max, raw.min, raw.lse, raw.mean);
    if (a.rows) write_planes(a, r, NAN, 0.0, 0.0, 0.0, 0.0);
    if (a.gaps) careful_gaps(a, r, scratch, raw.max);
    if (a.kind == KIND_STATS) return;
    careful_weights(a, r, scratch, raw);
    careful_output(a, r, scratch, scratch + a.n_k);
}

}  // namespace strop
