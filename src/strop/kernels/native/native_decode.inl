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

constexpr int64_t AHEAD = 16;   // keys; processors do not read ahead beyond a page, which is as long

static inline vf load_some(const Args &a, const void *base, int64_t at, int64_t row) {
    __builtin_prefetch((const char *)base + (at + AHEAD * row) * (a.bf16 ? 2 : 4));
    if (!a.bf16) return load((const float *)base + at);
    vf x;
    for (int i = 0; i < W; i++) x[i] = load_bf16(((const uint16_t *)base)[at + i]);
    return x;
}

// Dot products of R query rows with J keys, J of them at a time so that a row is loaded once for all.
template <int R, int J> static void dots(const Decode &w, const float *q, int64_t q_row, int64_t key, float *to) {
    const Args &a = w.a;
    int64_t n = padded(a.n_k, 16), c = 0;
    vf acc[R][J];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int j = 0; j < J; j++) acc[r][j] = splat(0.0f);
    for (; c + W <= a.d; c += W) {
        vf k[J];
        UNROLL for (int j = 0; j < J; j++) k[j] = load_some(a, a.k, key + j * a.ks.row + c, a.ks.row);
        UNROLL for (int r = 0; r < R; r++) {
            vf x = load(q + r * q_row + c);
            UNROLL for (int j = 0; j < J; j++) acc[r][j] = fma(x, k[j], acc[r][j]);
        }
    }
    for (int r = 0; r < R; r++) for (int j = 0; j < J; j++) {
        float total = sum_of(acc[r][j]);
        for (int64_t i = c; i < a.d; i++) total += q[r * q_row + i] * element(a, a.k, key + j * a.ks.row + i);
        to[r * n + j] = total;
    }
}

// The columns of R output rows from `col` on, C vectors of them, plus weights times values of some keys.
template <int R, int C> static void add_values(const Decode &w, int64_t first, int64_t last, int64_t col, float *out) {
    const Args &a = w.a;
    int64_t n = padded(a.n_k, 16), base = w.b * a.vs.batch + w.kv * a.vs.head + col;
    bool masked = a.keep || a.causal;
    vf acc[R][C], v[C];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) acc[r][c] = load(out + r * a.dv + col + c * W);
    for (int64_t j = first; j < last; j++) {
        UNROLL for (int c = 0; c < C; c++) v[c] = load_some(a, a.v, base + j * a.vs.row + c * W, a.vs.row);
        UNROLL for (int r = 0; r < R; r++) {
            float p = w.logits[r * n + j];
            if (masked && p == HIDDEN) continue;
            UNROLL for (int c = 0; c < C; c++) acc[r][c] = fma(splat(p), v[c], acc[r][c]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) store(out + r * a.dv + col + c * W, acc[r][c]);
}

constexpr int ABREAST = W == 16 ? 4 : 2;   // keys or columns that are in registers beside the rows
struct Products {
    void (*dot)(const Decode &, const float *, int64_t, int64_t, float *), (*dots)(const Decode &, const float *, int64_t, int64_t, float *);
    void (*add)(const Decode &, int64_t, int64_t, int64_t, float *), (*adds)(const Decode &, int64_t, int64_t, int64_t, float *);
};
template <int R> constexpr Products products() { return {dots<R, 1>, dots<R, ABREAST>, add_values<R, 1>, add_values<R, ABREAST>}; }
static const Products &products_of(int64_t rows) {
    static const Products table[] = {products<1>(), products<2>(), products<3>(), products<4>(),
                                     products<5>(), products<6>(), products<7>(), products<8>()};
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
    const Products &products = products_of(rows);
    bool masked = a.keep || a.causal;
    int64_t base = w.b * a.ks.batch + w.kv * a.ks.head, j = first;
    for (; !masked && j + ABREAST <= last; j += ABREAST) products.dots(w, q, q_row, base + j * a.ks.row, w.logits + j);
    for (; j < last; j++) {
        if (!masked || any_sees(w, j)) products.dot(w, q, q_row, base + j * a.ks.row, w.logits + j);
        else for (int64_t r = 0; r < rows; r++) w.logits[r * n + j] = HIDDEN;
    }
    for (; j < padded(last, W); j++) for (int64_t r = 0; r < rows; r++) w.logits[r * n + j] = HIDDEN;
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

static Partial row_extremes(const float *x, int64_t count) {
    const vf hidden = splat(HIDDEN), far = splat(__builtin_inff());
    vf top = hidden, low = far, bad = splat(0.0f);
    vi seen = vi{};
    for (int64_t j = 0; j < count; j += W) {
        vf some = load(x + j);
        vi out = some == hidden;   // -1 where hidden
        top = maximum(some, top), low = minimum(select(out, far, some), low);
        bad += some * splat(0.0f), seen += out + 1;
    }
    Partial p{HIDDEN, __builtin_inff(), 0, 0, sum_of(bad), 0};
    for (int i = 0; i < W; i++) {
        p.max = top[i] > p.max ? top[i] : p.max, p.min = low[i] < p.min ? low[i] : p.min;
        p.n_keys += seen[i];
    }
    return p;
}

// Σ 2^y and Σ y·2^y of a piece of a row, y = (x - top)·beta.
static void row_powers(const float *x, int64_t count, float top, float beta, float &sum, float &moment) {
    vf total = splat(0.0f), first = splat(0.0f);
    for (int64_t j = 0; j < count; j += W) {
        vf y = (load(x + j) - splat(top)) * splat(beta), e = power_of_two(y);
        total += e;
        first = fma(y, e, first);
    }
    sum = sum_of(total), moment = sum_of(first);
}

// Logits of a piece of a row become its weights 2^y; hidden keys stay marked. Returns Σ 2^y.
static float weigh_row(float *x, int64_t count, float top, float beta) {
    vf total = splat(0.0f);
    for (int64_t j = 0; j < count; j += W) {
        vf some = load(x + j), e = power_of_two((some - splat(top)) * splat(beta));
        total += e;
        store(x + j, select(some == splat(HIDDEN), some, e));
    }
    return sum_of(total);
}

static void phase_logits(Decode &w) {
    const Args &a = w.a;
    int64_t rows = shared_rows(a), first = w.chunk * CHUNK, last = smaller(a.n_k, first + CHUNK);
    chunk_scores(w, w.q + w.chunk * rows * padded(a.d, W), first, last);
    for (int64_t r = 0; r < rows; r++) {
        adjust_row(w, r, first, last);
        const float *x = w.logits + r * padded(a.n_k, 16) + first;
        Partial &p = w.partial[w.chunk * rows + r];
        p = row_extremes(x, last - first);
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

constexpr int64_t STRETCH = 64;   // keys whose values stay in cache while their columns are gone through

static void some_values(const Decode &w, int64_t first, int64_t last, float *out) {
    const Args &a = w.a;
    const Products &products = products_of(shared_rows(a));
    int64_t n = padded(a.n_k, 16), c = 0;
    for (; c + ABREAST * W <= a.dv; c += ABREAST * W) products.adds(w, first, last, c, out);
    for (; c + W <= a.dv; c += W) products.add(w, first, last, c, out);
    for (; c < a.dv; c++)
        for (int64_t r = 0; r < shared_rows(a); r++)
            for (int64_t j = first; j < last; j++) {
                float p = w.logits[r * n + j];
                if (p != HIDDEN) out[r * a.dv + c] += p * element(a, a.v, w.b * a.vs.batch + w.kv * a.vs.head + j * a.vs.row + c);
            }
}

static void phase_values(Decode &w) {
    const Args &a = w.a;
    int64_t rows = shared_rows(a), n = padded(a.n_k, 16), first = w.chunk * CHUNK, last = smaller(a.n_k, first + CHUNK);
    float *out = w.out + w.chunk * rows * a.dv;
    memset(out, 0, rows * a.dv * 4);
    for (int64_t r = 0; r < rows; r++)
        w.totals[w.chunk * rows + r] = weigh_row(w.logits + r * n + first, last - first, w.state[r].top, w.state[r].beta);
    for (int64_t j = first; j < last; j += STRETCH) some_values(w, j, smaller(last, j + STRETCH), out);
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
