// What a block of keys looks like to LANES rows: bias added, logits soft-capped, hidden keys set to HIDDEN.

enum Sight : uint8_t { NONE, ALL, SOME };
struct Tile { int64_t b, h, row, rows, key, keys; };   // `rows` rows from `row` on against `keys` keys from `key` on

static inline const uint8_t *keep_at(const Args &a, const Tile &t, int64_t r, int64_t j) {
    return a.keep + t.b * a.keeps.batch + t.h * a.keeps.head + (t.row + r) * a.keeps.row + (t.key + j) * a.keeps.col;
}

// Whether a row of the mask holds a True (bit 0) and a False (bit 1) among the tile's keys.
static int row_holds(const uint8_t *keep, int64_t stride, int64_t keys) {
    int found = 0;
    int64_t j = 0;
    if (stride == 1) {
        uint64_t set = 0, clear = 0;
        for (; j + 8 <= keys; j += 8) {
            uint64_t x;
            memcpy(&x, keep + j, 8);
            set |= x;
            clear |= (x - 0x0101010101010101u) & ~x & 0x8080808080808080u;   // some byte is 0
        }
        found = (set ? 1 : 0) | (clear ? 2 : 0);
    }
    for (; j < keys; j++) found |= keep[j * stride] ? 1 : 2;
    return found;
}

static Sight keep_sight(const Args &a, const Tile &t) {
    if (!a.keep) return ALL;
    int found = 0;
    int64_t rows = a.keeps.row == 0 ? 1 : t.rows;
    int64_t keys = a.keeps.col == 0 ? 1 : t.keys;
    for (int64_t r = 0; r < rows && found != 3; r++) found |= row_holds(keep_at(a, t, r, 0), a.keeps.col, keys);
    return found == 1 ? ALL : found == 2 ? NONE : SOME;
}

static Sight sight_of(const Args &a, const Tile &t) {
    if (visible_end(a, t.row + t.rows - 1) <= t.key) return NONE;
    Sight by_keep = keep_sight(a, t);
    bool all_causal = visible_end(a, t.row) >= t.key + t.keys;
    return by_keep == ALL && !all_causal ? SOME : by_keep;
}

// visible[j][lane] = 1 where lane's row may look at key j. Lanes past the last row count as seeing everything.
static void visibility(const Args &a, const Tile &t, uint8_t *visible) {
    if (a.keep && a.keeps.row == 0) {
        for (int64_t j = 0; j < t.keys; j++) memset(visible + j * LANES, *keep_at(a, t, 0, j) != 0, LANES);
    } else if (a.keep) {
        for (int64_t r = 0; r < t.rows; r++) {
            const uint8_t *keep = keep_at(a, t, r, 0);
            for (int64_t j = 0; j < t.keys; j++) visible[j * LANES + r] = keep[j * a.keeps.col] != 0;
        }
    } else {
        memset(visible, 1, t.keys * LANES);
    }
    for (int64_t r = 0; a.causal && r < t.rows; r++)
        for (int64_t j = larger(0, visible_end(a, t.row + r) - t.key); j < t.keys; j++) visible[j * LANES + r] = 0;
    for (int64_t r = t.rows; r < LANES; r++)
        for (int64_t j = 0; j < t.keys; j++) visible[j * LANES + r] = 1;
}

static void add_bias(const Args &a, const Tile &t, float *s, float *spare, float times = 1.0f) {
    const float *bias = a.bias + t.b * a.biass.batch + t.h * a.biass.head + t.row * a.biass.row + t.key * a.biass.col;
    if (a.biass.row == 0) {
        for (int64_t j = 0; j < t.keys; j++)
            for (int m = 0; m < MV; m++) store(s + j * LANES + m * W, load(s + j * LANES + m * W) + splat(times * bias[j * a.biass.col]));
        return;
    }
    if (a.biass.col == 1) {
        transpose(bias, a.biass.row, t.rows, t.keys, spare, LANES);
    } else {
        for (int64_t r = 0; r < t.rows; r++)
            for (int64_t j = 0; j < t.keys; j++) spare[j * LANES + r] = bias[r * a.biass.row + j * a.biass.col];
    }
    for (int64_t r = t.rows; r < LANES; r++)
        for (int64_t j = 0; j < t.keys; j++) spare[j * LANES + r] = 0.0f;
    for (int64_t i = 0; i < t.keys * LANES; i += W) store(s + i, fma(load(spare + i), splat(times), load(s + i)));
}

// cap·tanh(x/cap): by 2^y away from 0, by the odd series near it, where 1 - 2^y would cancel.
static void cap_logits(float cap, int64_t count, float *s) {
    const vf inverse = splat(1.0f / cap), to_bits = splat(-2.0f * 1.44269504f), one = splat(1.0f), zero = splat(0.0f);
    for (int64_t i = 0; i < count; i += W) {
        vf u = load(s + i) * inverse, size = maximum(u, zero - u), square = u * u;
        vf e = power_of_two(maximum(size * to_bits, splat(-200.0f)));
        vf far = (one - e) / (one + e);
        vf series = fma(splat(-1382.0f / 155925), square, splat(62.0f / 2835));
        series = fma(series, square, splat(-17.0f / 315));
        series = fma(series, square, splat(2.0f / 15));
        series = fma(series, square, splat(-1.0f / 3));
        vf near = fma(series * square, size, size);
        vf result = select(size < splat(0.35f), near, far);
        result = splat(cap) * select(u < zero, zero - result, result);
        store(s + i, select(u == u, result, u));   // NaN stays NaN
    }
}

// Extremes of the visible logits of every lane; `bad` turns NaN where one is not finite.
struct Extremes { vf max[MV], min[MV], bad[MV]; vi n_keys[MV]; };

static void reduce_all(const float *s, int64_t keys, Extremes &x) {
    vf high[MV], low[MV], bad[MV];
    UNROLL for (int m = 0; m < MV; m++) high[m] = x.max[m], low[m] = x.min[m], bad[m] = x.bad[m];
    for (int64_t j = 0; j < keys; j++)
        UNROLL for (int m = 0; m < MV; m++) {
            vf e = load(s + j * LANES + m * W);
            high[m] = maximum(high[m], e);
            low[m] = minimum(low[m], e);
            bad[m] = fma(e, splat(0.0f), bad[m]);
        }
    for (int m = 0; m < MV; m++) x.max[m] = high[m], x.min[m] = low[m], x.bad[m] = bad[m], x.n_keys[m] += (int32_t)keys;
}

static void hide_and_reduce(const uint8_t *visible, float *s, int64_t keys, Extremes &x) {
    const vf hidden = splat(HIDDEN), far = splat(__builtin_inff());
    for (int64_t j = 0; j < keys; j++)
        for (int m = 0; m < MV; m++) {
            vi seen = __builtin_convertvector((vb)*(const vb_any *)(visible + j * LANES + m * W), vi) != 0;
            vf e = load(s + j * LANES + m * W), shown = select(seen, e, hidden);
            x.max[m] = maximum(x.max[m], shown);
            x.min[m] = minimum(x.min[m], select(seen, e, far));
            x.bad[m] = fma(shown, splat(0.0f), x.bad[m]);
            x.n_keys[m] -= seen;
            store(s + j * LANES + m * W, shown);
        }
}
