// The gradient of one row in double precision, as the definition says: for rows that only the careful path can do.
// native_backward.inl has the formulae.
#pragma once
#include "native_careful.h"

namespace strop {

inline double polynomial_slope(const Args &a, double entropy) {   // β′(H)
    double p = a.coefficients[0], slope = 0;
    for (int i = 1; i < a.n_coefficients; i++) slope = slope * entropy + p, p = p * entropy + a.coefficients[i];
    return p > 1.0 && entropy > a.threshold && entropy < a.hold_at ? slope : 0.0;
}

inline double given(const float *field, int64_t at) { return field ? field[at] : 0.0; }

// Gradient of the output with respect to the weights: Σ_c dout·v, in which values that are not finite count as nothing.
inline double careful_product(const Args &a, const Flow &f, Row r, int64_t j) {
    int64_t o = r.b * f.d_outs.batch + r.h * f.d_outs.head + r.i * f.d_outs.row;
    int64_t v = r.b * a.vs.batch + (r.h / a.group) * a.vs.head + j * a.vs.row;
    double dot = 0;
    for (int64_t c = 0; c < a.dv; c++) {
        double x = element(a, a.v, v + c);
        if (x - x == 0) dot += x * double(element(a, f.d_out, o + c));
    }
    return dot;
}

struct CarefulFlow { double gain, delta, lift, lean, d_beta, d_sink; };

// What the weights' gradients come to over the row: D, β's part and the sink's.
inline void careful_totals(const Args &a, const Flow &f, Row r, const double *x, const double *w, const double *product,
                           const CarefulSums &raw, CarefulFlow &t) {
    double sum = 0, mass = 0, lever = 0, kept = 0;
    for (int64_t j = 0; j < a.n_k; j++) {
        if (!sees(a, r, j)) continue;
        double slope = a.kind == KIND_SOFTMAX ? w[j] : a.kind == KIND_ENTMAX15 ? sqrt(w[j]) : w[j] > 0;
        sum += slope * product[j], mass += slope, kept += w[j];
    }
    t.gain = 1.0, t.delta = a.kind == KIND_SOFTMAX ? sum : sum / mass;
    if (a.kind != KIND_SOFTMAX) return;
    double entropy = fmax(raw.lse - raw.mean, 0.0) + 0.0 * (raw.lse - raw.mean);
    t.gain = beta_of_row(a, r, entropy);
    for (int64_t j = 0; j < a.n_k; j++) if (sees(a, r, j)) lever += w[j] > 0 ? w[j] * (product[j] - sum) * x[j] : 0.0 * (product[j] - sum);
    t.d_beta = lever, t.d_sink = a.sink ? -(1.0 - kept) * sum : 0.0;
    if (f.slope && a.beta_from == BETA_ENTROPY) t.lean -= lever * polynomial_slope(a, entropy);
}

inline double careful_slope(const Args &a, const CarefulFlow &t, double w, double product) {
    if (a.kind == KIND_STATS) return 0.0;
    double slope = a.kind == KIND_SOFTMAX ? w : a.kind == KIND_ENTMAX15 ? sqrt(w) : w > 0;
    return t.gain * slope * (product - t.delta);
}

inline int64_t careful_back_scratch(const Args &a) { return 3 * a.n_k; }   // doubles

// Fills the row's lane of `ds` (gradients of query·key) and `weights`, both [n_k][lanes], and adds to the bias's gradient.
inline void careful_back(const Args &a, const Flow &f, Row r, double *x, float *ds, float *weights, int64_t lanes) {
    double *w = x + a.n_k, *product = w + a.n_k;
    for (int64_t j = 0; j < a.n_k; j++) w[j] = x[j] = sees(a, r, j) ? careful_logit(a, r, j) : 0.0;
    CarefulSums raw = careful_sums(a, r, x, 1.0);
    int64_t at = row_index(a, r);
    double d_mean = given(f.d_mean, at), highest = 0, lowest = 0;
    CarefulFlow t{0, 0, given(f.d_logsumexp, at) + d_mean, d_mean, 0, 0};
    if (a.kind != KIND_STATS) {
        careful_weights(a, r, w, raw);
        for (int64_t j = 0; j < a.n_k; j++) product[j] = sees(a, r, j) ? careful_product(a, f, r, j) : 0.0;
        careful_totals(a, f, r, x, w, product, raw, t);
    }
    for (int64_t j = 0; j < a.n_k; j++) if (sees(a, r, j)) highest += x[j] == raw.max, lowest += x[j] == raw.min;
    bool leans = t.lift != 0 || t.lean != 0;
    for (int64_t j = 0; j < a.n_k; j++) {
        bool seen = sees(a, r, j);
        double p = seen && leans ? exp(x[j] - raw.max) / raw.sum : 0.0, change = 0;
        if (seen) change = careful_slope(a, t, w[j], product[j]) + (p != 0 ? p * (t.lift + t.lean * (x[j] - raw.mean)) : 0.0);
        if (seen && x[j] == raw.max) change += given(f.d_max, at) / highest;
        if (seen && x[j] == raw.min) change += given(f.d_min, at) / lowest;
        int64_t bias = r.b * a.biass.batch + r.h * a.biass.head + r.i * a.biass.row + j * a.biass.col;
        int64_t d_bias = r.b * f.d_biass.batch + r.h * f.d_biass.head + r.i * f.d_biass.row + j * f.d_biass.col;
        if (f.d_bias && seen) f.d_bias[d_bias] += float(change);
        double capped = a.softcap > 0 && seen ? (x[j] - (a.bias ? a.bias[bias] : 0.0f)) / a.softcap : 0.0;
        ds[j * lanes] = float(change * (1.0 - capped * capped));
        if (weights) weights[j * lanes] = seen && a.kind != KIND_STATS ? float(w[j]) : 0.0f;
    }
    if (f.d_beta) f.d_beta[at] = float(t.d_beta);
    if (f.d_sink) f.d_sink[at] = float(t.d_sink);
}

}  // namespace strop
