// Decoding: few query rows against a long cache, so the time is that of reading keys and values once.
// Rows of all query heads that share a key head travel together; keys are cut into fixed CHUNKs, so that one head can feed
// every thread and the result does not depend on how many there are.
// Phases: 0 logits and partial sums · 1 merge, β · 2 weights times values · 3 merge.

constexpr int64_t CHUNK = 2048;
constexpr int64_t MOST_ROWS = 8;

static int64_t shared_rows(const Args &a) { return a.group * a.n_q; }
static int64_t chunks(const Args &a) { return larger(1, (a.n_k + CHUNK - 1) / CHUNK); }
static bool decodes(const Args &a) {
    return a.kind == KIND_SOFTMAX && shared_rows(a) <= MOST_ROWS && a.n_q * 4 <= LANES && a.n_k > 0;
}

struct Partial { float max, min, sum, moment, bad; int64_t n_keys; };
struct RowState { float top, beta; double total; int odd; RowSums sums; };
struct Decode {
    const Args &a;
    int64_t b, kv, chunk;
    float *logits, *out, *totals;   // [row][n_k], [chunk][row][dv], [chunk][row]
    Partial *partial;               // [chunk][row]
    RowState *state;                // [row]
    float *q;                       // [row][d], scaled
    double *doubles;

    Decode(const Args &args, int64_t unit, int64_t part) : a(args), chunk(part) {
        b = unit / (a.heads / a.group), kv = unit % (a.heads / a.group);
    }
};

static int64_t carve_decode(Decode &w, uintptr_t base) {   // the pieces of one key head, and their size
    const Args &a = w.a;
    int64_t rows = shared_rows(a);
    Carver c{base, 0};
    w.logits = c.take<float>(rows * padded(a.n_k, 16));
    w.out = c.take<float>(chunks(a) * rows * a.dv);
    w.totals = c.take<float>(chunks(a) * rows);
    w.partial = c.take<Partial>(chunks(a) * rows);
    w.state = c.take<RowState>(rows);
    w.q = c.take<float>(chunks(a) * rows * padded(a.d, W));
    w.doubles = c.take<double>(careful_scratch(a));
    return (int64_t)c.used;
}
static Decode decode_at(const Args &a, int64_t unit, int64_t chunk, void *shared) {
    Decode w(a, unit, chunk);
    int64_t bytes = carve_decode(w, 0);
    carve_decode(w, ((uintptr_t)shared + 63) / 64 * 64 + (uintptr_t)(bytes * unit));
    return w;
}
static int64_t decode_shared(const Args &a) {
    Decode w(a, 0, 0);
    return carve_decode(w, 0) * a.batch * (a.heads / a.group) + 64;
}
static Row row_of(const Decode &w, int64_t r) { return {w.b, w.kv * w.a.group + r / w.a.n_q, r % w.a.n_q}; }

static inline vf load_some(const Args &a, const void *base, int64_t at) {
    if (!a.bf16) return load((const float *)base + at);
    vf x;
    for (int i = 0; i < W; i++) x[i] = load_bf16(((const uint16_t *)base)[at + i]);
    return x;
}

// Dot products of R query rows with one key.
template <int R> static void dots(const Decode &w, const float *q, int64_t q_row, int64_t key, float *out) {
    const Args &a = w.a;
    vf acc[R];
    UNROLL for (int r = 0; r < R; r++) acc[r] = splat(0.0f);
    int64_t c = 0;
    for (; c + W <= a.d; c += W) {
        vf k = load_some(a, a.k, key + c);
        UNROLL for (int r = 0; r < R; r++) acc[r] = fma(load(q + r * q_row + c), k, acc[r]);
    }
    UNROLL for (int r = 0; r < R; r++) {
        float total = sum_of(acc[r]);
        for (int64_t i = c; i < a.d; i++) total += q[r * q_row + i] * element(a, a.k, key + i);
        out[r] = total;
    }
}
typedef void (*Dots)(const Decode &, const float *, int64_t, int64_t, float *);
static Dots dots_of(int64_t rows) {
    static const Dots table[] = {dots<1>, dots<2>, dots<3>, dots<4>, dots<5>, dots<6>, dots<7>, dots<8>};
    return table[rows - 1];
}

static bool any_sees(const Decode &w, int64_t j) {
    for (int64_t r = 0; r < shared_rows(w.a); r++) if (sees(w.a, row_of(w, r), j)) return true;
    return false;
}

static void chunk_scores(const Decode &w, float *q, int64_t first, int64_t last) {
    const Args &a = w.a;
    int64_t rows = shared_rows(a), q_row = padded(a.d, W), n = padded(a.n_k, 16);
    for (int64_t r = 0; r < rows; r++) {
        Row at = row_of(w, r);
        int64_t from = at.b * a.qs.batch + at.h * a.qs.head + at.i * a.qs.row;
        for (int64_t c = 0; c < a.d; c++) q[r * q_row + c] = element(a, a.q, from + c) * a.scale;
    }
    Dots product = dots_of(rows);
    bool masked = a.keep || a.causal;
    int64_t base = w.b * a.ks.batch + w.kv * a.ks.head;
    for (int64_t j = first; j < last; j++) {
        float x[MOST_ROWS];
        if (masked && !any_sees(w, j)) {
            for (int64_t r = 0; r < rows; r++) w.logits[r * n + j] = HIDDEN;
            continue;
        }
        product(w, q, q_row, base + j * a.ks.row, x);
        for (int64_t r = 0; r < rows; r++) w.logits[r * n + j] = x[r];
    }
}

static void adjust_row(const Decode &w, int64_t r, int64_t first, int64_t last) {   // cap, bias and mask
    const Args &a = w.a;
    float *x = w.logits + r * padded(a.n_k, 16);
    Row at = row_of(w, r);
    for (int64_t j = first; j < last && (a.softcap > 0 || a.bias || a.keep || a.causal); j++) {
        if (!sees(a, at, j)) {
            x[j] = HIDDEN;
            continue;
        }
        if (a.softcap > 0) x[j] = a.softcap * tanhf(x[j] / a.softcap);
        if (a.bias) x[j] += a.bias[at.b * a.biass.batch + at.h * a.biass.head + at.i * a.biass.row + j * a.biass.col];
    }
}

static Partial row_extremes(const float *x, int64_t count, bool masked) {
    Partial p{HIDDEN, __builtin_inff(), 0, 0, 0, 0};
    for (int64_t j = 0; j < count; j++) {
        if (masked && x[j] == HIDDEN) continue;
        p.max = x[j] > p.max ? x[j] : p.max;
        p.min = x[j] < p.min ? x[j] : p.min;
        p.bad += x[j] * 0.0f;
        p.n_keys++;
    }
    return p;
}

// Σ 2^y and Σ y·2^y of a piece of a row, y = (x - top)·beta.
static void row_powers(const float *x, int64_t count, float top, float beta, float &sum, float &moment) {
    vf total = splat(0.0f), first = splat(0.0f);
    for (int64_t j = 0; j < count; j += W) {
        alignas(64) float some[W];
        for (int i = 0; i < W; i++) some[i] = j + i < count ? x[j + i] : HIDDEN;
        vf y = (load(some) - splat(top)) * splat(beta), e = power_of_two(y);
        total += e;
        first = fma(y, e, first);
    }
    sum = sum_of(total), moment = sum_of(first);
}

static void phase_logits(Decode &w) {
    const Args &a = w.a;
    int64_t rows = shared_rows(a), first = w.chunk * CHUNK, last = smaller(a.n_k, first + CHUNK);
    chunk_scores(w, w.q + w.chunk * rows * padded(a.d, W), first, last);
    for (int64_t r = 0; r < rows; r++) {
        adjust_row(w, r, first, last);
        const float *x = w.logits + r * padded(a.n_k, 16) + first;
        Partial &p = w.partial[w.chunk * rows + r];
        p = row_extremes(x, last - first, a.keep || a.causal);
        if (wants_sums(a) && p.n_keys) row_powers(x, last - first, p.max, LOG2E, p.sum, p.moment);
    }
}

static void phase_beta(Decode &w) {
    const Args &a = w.a;
    for (int64_t r = 0; r < shared_rows(a); r++) {
        RowState &s = w.state[r];
        double sum = 0, moment = 0;
        float bad = 0;
        s.sums = {HIDDEN, __builtin_inff(), 0, 0, 0};
        for (int64_t c = 0; c < chunks(a); c++) {
            const Partial &p = w.partial[c * shared_rows(a) + r];
            s.sums.max = p.max > s.sums.max ? p.max : s.sums.max, s.sums.min = p.min < s.sums.min ? p.min : s.sums.min;
            s.sums.n_keys += p.n_keys, bad += p.bad;
        }
        for (int64_t c = 0; c < chunks(a); c++) {
            const Partial &p = w.partial[c * shared_rows(a) + r];
            double step = (double(p.max) - double(s.sums.max)) * 1.4426950408889634, shrink = exp2(step);
            if (p.n_keys) sum += shrink * p.sum, moment += shrink * (p.moment + step * p.sum);
        }
        s.sums.sum = float(sum), s.sums.moment = float(moment), s.top = s.sums.max;
        double beta = s.sums.n_keys ? beta_of_row(a, row_of(w, r), fmax(0.0, log(sum) - moment / sum * 0.6931471805599453)) : 1.0;
        s.beta = float(beta * 1.4426950408889634);
        bool finite = bad == 0.0f && sum + moment - (sum + moment) == 0;
        s.odd = s.sums.n_keys && !(finite && s.top > DEEP && beta > 1e-30 && beta < 1e30);
    }
}

static void phase_values(Decode &w) {
    const Args &a = w.a;
    int64_t rows = shared_rows(a), n = padded(a.n_k, 16), first = w.chunk * CHUNK, last = smaller(a.n_k, first + CHUNK);
    float *out = w.out + w.chunk * rows * a.dv;
    bool masked = a.keep || a.causal;
    int64_t base = w.b * a.vs.batch + w.kv * a.vs.head;
    memset(out, 0, rows * a.dv * 4);
    for (int64_t r = 0; r < rows; r++) {
        float moment, *total = w.totals + w.chunk * rows + r;
        row_powers(w.logits + r * n + first, last - first, w.state[r].top, w.state[r].beta, *total, moment);
    }
    for (int64_t j = first; j < last; j++)
        for (int64_t r = 0; r < rows; r++) {
            float x = w.logits[r * n + j];
            if (masked && x == HIDDEN) continue;
            vf p = power_of_two(splat((x - w.state[r].top) * w.state[r].beta));
            int64_t c = 0;
            float *to = out + r * a.dv;
            for (; c + W <= a.dv; c += W) store(to + c, fma(p, load_some(a, a.v, base + j * a.vs.row + c), load(to + c)));
            for (; c < a.dv; c++) to[c] += p[0] * element(a, a.v, base + j * a.vs.row + c);
        }
}

static void phase_finish(Decode &w) {
    const Args &a = w.a;
    int64_t rows = shared_rows(a);
    for (int64_t r = 0; r < rows; r++) {
        RowState &s = w.state[r];
        Row at = row_of(w, r);
        double total = 0;
        for (int64_t c = 0; c < chunks(a); c++) total += w.totals[c * rows + r];
        double share = s.sums.n_keys ? sink_factor(a, at, tempered_lse(s.top, s.beta, total)) / total : 0.0;
        int64_t o = at.b * a.os.batch + at.h * a.os.head + at.i * a.os.row;
        for (int64_t i = 0; i < a.dv; i++) {
            double x = 0;
            for (int64_t c = 0; c < chunks(a) && s.sums.n_keys; c++) x += w.out[(c * rows + r) * a.dv + i];
            x *= share;
            if (!(x - x == 0)) s.odd = 1;
            if (a.bf16) ((uint16_t *)a.out)[o + i] = store_bf16(float(x));
            else ((float *)a.out)[o + i] = float(x);
        }
        if (s.odd) careful_row(a, at, w.doubles);
        else if (a.n_keys) write_stats(a, at, s.sums);
        if (a.rows && !s.odd) write_planes(a, at, s.sums, s.beta, share);
    }
}

static int64_t decode_units(const Args &a, int phase) { return a.batch * (a.heads / a.group) * (phase % 2 ? 1 : chunks(a)); }
static void decode_unit(const Args &a, int phase, int64_t unit, void *shared) {
    int64_t cuts = phase % 2 ? 1 : chunks(a);
    Decode w = decode_at(a, unit / cuts, unit % cuts, shared);
    if (phase == 0) phase_logits(w);
    if (phase == 1) phase_beta(w);
    if (phase == 2) phase_values(w);
    if (phase == 3) phase_finish(w);
}
