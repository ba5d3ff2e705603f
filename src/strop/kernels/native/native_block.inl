// Prefill: a unit is a few groups of LANES query rows of one head. Keys arrive in blocks that stay in L2 while the groups use them.
//   one pass   β is known beforehand: logits of a block (L1) → extremes → 2^y → times values; sums move with the maximum
//   two passes β needs the entropy, or a threshold the whole row: all logits of the unit are kept (L2, or L3 for long rows)

constexpr float LOG2E = 1.44269504f;
constexpr int64_t KEPT_BYTES = 16 << 20, LEAST_KEPT = 4 << 20;   // logits of all threads' units: half of a common L3; of one's

struct Group {
    float *qt, *ot, *s;          // [d][LANES], [dv][LANES], logits [keys][LANES]
    uint8_t *sight;              // of every key block, two passes only
    int64_t row, rows;
    Extremes x;
    vf sum[MV], moment[MV];      // raw statistics: Σ 2^y and Σ y·2^y with y = (e - max)·log2(e)
    vf top[MV], beta[MV], total[MV];   // weights: 2^((e - top)·beta), whose sum is `total`; or top and threshold
    float odd[LANES], share[LANES];   // rows that only the careful path can do; what multiplies the weights in the end
};

struct Unit {
    const Args &a;
    int64_t b, h, row, groups;
    Group *group;
    float *key_copy, *value_copy, *p, *spare;
    uint8_t *visible;
    double *doubles;
};

static bool beta_needs_row(const Args &a) { return a.kind == KIND_SOFTMAX && a.beta_from == BETA_ENTROPY; }
static bool keeps_logits(const Args &a) { return a.kind == KIND_SPARSEMAX || a.kind == KIND_ENTMAX15 || beta_needs_row(a); }
static bool wants_sums(const Args &a) { return a.n_keys || a.kind == KIND_STATS || beta_needs_row(a); }
// Plain softmax with statistics: one exponential serves both.
static bool raw_weights(const Args &a) {
    return a.n_keys && a.kind == KIND_SOFTMAX && a.beta_from == BETA_CONSTANT && a.beta == 1.0f;
}
static int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t key_blocks(const Args &a) { return (a.n_k + BLOCK_KEYS - 1) / BLOCK_KEYS; }

// Tall units read keys and values less often; short inputs need many units to share out, and threads share the L3. A row's result
// is the same in any unit.
static int64_t groups_in_unit(const Args &a) {
    int64_t wanted = larger(1, (a.n_q >= 16384 ? 256 : a.n_q >= 4096 ? 128 : 64) / LANES);
    int64_t kept = larger(KEPT_BYTES / larger(a.threads, 1), LEAST_KEPT);
    if (keeps_logits(a)) wanted = smaller(wanted, larger(1, kept / (padded(larger(a.n_k, 1), BLOCK_KEYS) * LANES * 4)));
    return smaller(wanted, (a.n_q + LANES - 1) / LANES);
}
static int64_t units_in_head(const Args &a) { return (a.n_q + groups_in_unit(a) * LANES - 1) / (groups_in_unit(a) * LANES); }
static int64_t block_units(const Args &a) { return a.batch * a.heads * units_in_head(a); }

struct Carver {   // hands out 64-byte aligned pieces; with base 0 it only measures
    uintptr_t base, used;
    template <class T> T *take(int64_t count) {
        uintptr_t at = base + used;
        used += (uintptr_t)padded(count * (int64_t)sizeof(T), 64) + 64;   // a line apart, so that equal strides do not collide
        return (T *)at;
    }
};

static void carve(Unit &u, Carver &c) {
    const Args &a = u.a;
    int64_t kept = keeps_logits(a) ? padded(a.n_k, BLOCK_KEYS) : BLOCK_KEYS;
    u.group = c.take<Group>(groups_in_unit(a));
    u.key_copy = c.take<float>(BLOCK_KEYS * (a.d + 16));
    u.value_copy = c.take<float>(BLOCK_KEYS * (a.dv + 16));
    u.p = c.take<float>(BLOCK_KEYS * LANES);
    u.spare = c.take<float>(larger(BLOCK_KEYS, larger(a.d, a.dv)) * LANES);
    u.visible = c.take<uint8_t>(BLOCK_KEYS * LANES);
    u.doubles = c.take<double>(careful_scratch(a));
    for (int64_t g = 0; g < groups_in_unit(a); g++) {
        float *qt = c.take<float>(a.d * LANES), *ot = c.take<float>(a.dv * LANES), *s = c.take<float>(kept * LANES);
        uint8_t *sight = c.take<uint8_t>(key_blocks(a));
        if (c.base) u.group[g].qt = qt, u.group[g].ot = ot, u.group[g].s = s, u.group[g].sight = sight;
    }
}
static int64_t block_scratch(const Args &a) {
    Unit u{a, 0, 0, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
    Carver measure{0, 0};
    carve(u, measure);
    return (int64_t)measure.used + 64;
}

static void as_floats(const Args &a, const void *base, int64_t offset, int64_t count, float *out) {
    if (a.bf16) for (int64_t c = 0; c < count; c++) out[c] = load_bf16(((const uint16_t *)base)[offset + c]);
    else memcpy(out, (const float *)base + offset, count * 4);
}

// Keys or values where they lie, or a copy (bfloat16, or rows 2048 bytes apart, which share cache sets).
static Floats block_floats(const Unit &u, const void *base, const Strides &s, int64_t j, int64_t keys, int64_t cols, float *copy) {
    const Args &a = u.a;
    int64_t at = u.b * s.batch + (u.h / a.group) * s.head + j * s.row;
    if (!a.bf16 && (s.row * 4) % 2048 != 0) return {(const float *)base + at, s.row, 0, 0, 1};
    int64_t row = padded(cols, 16) + 16 * (padded(cols, 16) * 4 % 2048 == 0);
    for (int64_t r = 0; r < keys; r++) as_floats(a, base, at + r * s.row, cols, copy + r * row);
    return {copy, row, 0, 0, 1};
}

static int64_t fetch_ahead(const Floats &x, const float *copy, bool more) {
    return more && x.at != copy ? BLOCK_KEYS * x.row : 0;
}

static void load_queries(Unit &u, Group &g) {
    const Args &a = u.a;
    int64_t at = u.b * a.qs.batch + u.h * a.qs.head + g.row * a.qs.row;
    if (g.rows < LANES) memset(g.qt, 0, a.d * LANES * 4);
    if (a.bf16) {
        for (int64_t r = 0; r < g.rows; r++) as_floats(a, a.q, at + r * a.qs.row, a.d, u.spare + r * a.d);
        transpose(u.spare, a.d, g.rows, a.d, g.qt, LANES);
    } else {
        transpose((const float *)a.q + at, a.qs.row, g.rows, a.d, g.qt, LANES);
    }
    for (int64_t i = 0; i < a.d * LANES; i += W) store(g.qt + i, load(g.qt + i) * splat(a.scale));
}

static void start_group(Unit &u, Group &g, int64_t row) {
    const Args &a = u.a;
    g.row = row, g.rows = smaller(LANES, a.n_q - row);
    load_queries(u, g);
    memset(g.ot, 0, a.dv * LANES * 4);
    alignas(64) float beta[LANES];
    for (int64_t r = 0; r < LANES; r++) {
        bool known = a.kind == KIND_SOFTMAX && !beta_needs_row(a) && r < g.rows;
        double b = known ? beta_of_row(a, {u.b, u.h, row + r}, 0.0) : 1.0;
        g.odd[r] = !(b > 1e-30 && b < 1e30), g.share[r] = 0.0f;
        beta[r] = g.odd[r] ? LOG2E : float(b * 1.4426950408889634);
    }
    for (int m = 0; m < MV; m++) {
        g.x.max[m] = splat(HIDDEN), g.x.min[m] = splat(__builtin_inff());
        g.x.bad[m] = g.sum[m] = g.moment[m] = g.total[m] = splat(0.0f);
        g.x.n_keys[m] = vi{};
        g.top[m] = splat(HIDDEN), g.beta[m] = load(beta + m * W);
    }
    if (a.gaps) memset(a.gaps + row_index(a, {u.b, u.h, row}) * GAP_ROW, 0, g.rows * GAP_ROW * sizeof *a.gaps);
}

// Logits of one key block with bias, cap and mask applied, and the lanes' extremes brought up to date.
static Sight block_logits(Unit &u, Group &g, Floats key, int64_t j, int64_t keys, float *s, bool reduce = true) {
    const Args &a = u.a;
    Tile t{u.b, u.h, g.row, g.rows, j, smaller(keys, visible_end(a, g.row + g.rows - 1) - j)};
    if (t.keys <= 0) return NONE;
    Sight sight = sight_of(a, t);
    if (sight == NONE) return NONE;
    logits_block(g.qt, key, t.keys, a.d, s);
    if (a.softcap > 0) cap_logits(a.softcap, t.keys * LANES, s);
    if (a.bias) add_bias(a, t, s, u.spare);
    if (sight == ALL) {
        if (reduce) reduce_all(s, t.keys, g.x);
    } else {
        visibility(a, t, u.visible);
        hide_and_reduce(u.visible, s, t.keys, g.x);
    }
    return sight;
}
static int64_t keys_in_block(const Args &a, const Group &g, int64_t j) {
    return smaller(smaller(BLOCK_KEYS, a.n_k - j), visible_end(a, g.row + g.rows - 1) - j);
}

// Raw statistics over a block, after its extremes: earlier sums move to the new maximum first.
static void add_sums(Group &g, const vf *before, const float *s, int64_t keys) {
    vf top[MV], sum[MV], moment[MV];
    UNROLL for (int m = 0; m < MV; m++) top[m] = g.x.max[m], sum[m] = moment[m] = splat(0.0f);
    for (int64_t j = 0; j < keys; j++)
        UNROLL for (int m = 0; m < MV; m++) {
            vf y = (load(s + j * LANES + m * W) - top[m]) * splat(LOG2E), e = power_of_two(y);
            sum[m] += e;
            moment[m] = fma(y, e, moment[m]);
        }
    for (int m = 0; m < MV; m++) {
        vf step = (before[m] - top[m]) * splat(LOG2E), shrink = power_of_two(step);
        g.moment[m] = shrink * fma(step, g.sum[m], g.moment[m]) + moment[m];
        g.sum[m] = fma(shrink, g.sum[m], sum[m]);
    }
}

// Weights of a block and their sum; with β = 1 they are also what the raw statistics need.
template <bool RAW> static void weigh(Group &g, const float *s, int64_t keys, float *p) {
    vf top[MV], beta[MV], total[MV], moment[MV];
    UNROLL for (int m = 0; m < MV; m++) top[m] = g.top[m], beta[m] = g.beta[m], total[m] = moment[m] = splat(0.0f);
    for (int64_t j = 0; j < keys; j++)
        UNROLL for (int m = 0; m < MV; m++) {
            vf y = (load(s + j * LANES + m * W) - top[m]) * beta[m], e = power_of_two(y);
            store(p + j * LANES + m * W, e);
            total[m] += e;
            if (RAW) moment[m] = fma(y, e, moment[m]);
        }
    for (int m = 0; m < MV; m++) g.total[m] += total[m], g.moment[m] += RAW ? moment[m] : splat(0.0f);
    for (int m = 0; RAW && m < MV; m++) g.sum[m] = g.total[m];
}

// When the running maximum moved, bring what is already summed down to it.
static void move_top(const Args &a, Group &g) {
    for (int m = 0; m < MV; m++) {
        vf top = g.x.max[m];
        if (!any(top != g.top[m])) continue;
        vf step = (g.top[m] - top) * g.beta[m], shrink = power_of_two(step);
        g.top[m] = top;
        if (raw_weights(a)) g.moment[m] = shrink * fma(step, g.total[m], g.moment[m]);
        g.total[m] *= shrink;
        for (int64_t c = 0; c < a.dv; c++) store(g.ot + c * LANES + m * W, load(g.ot + c * LANES + m * W) * shrink);
    }
}

static void one_pass_block(Unit &u, Group &g, Floats key, Floats value, int64_t j) {
    const Args &a = u.a;
    vf before[MV];
    for (int m = 0; m < MV; m++) before[m] = g.x.max[m];
    if (block_logits(u, g, key, j, smaller(BLOCK_KEYS, a.n_k - j), g.s) == NONE) return;
    int64_t keys = keys_in_block(a, g, j);
    if (wants_sums(a) && !raw_weights(a)) add_sums(g, before, g.s, keys);
    if (a.gaps) count_gaps(a, {u.b, u.h, g.row}, g.rows, before, g.x.max, g.s, keys);
    if (a.kind == KIND_STATS) return;
    move_top(a, g);
    if (raw_weights(a)) weigh<true>(g, g.s, keys, u.p);
    else weigh<false>(g, g.s, keys, u.p);
    values_block(u.p, value, u.p, keys, a.dv, g.ot);
}

static void first_pass(Unit &u, Group &g, Floats key, int64_t j) {
    const Args &a = u.a;
    float *s = g.s + j * LANES;
    vf before[MV];
    for (int m = 0; m < MV; m++) before[m] = g.x.max[m];
    Sight sight = block_logits(u, g, key, j, smaller(BLOCK_KEYS, a.n_k - j), s);
    g.sight[j / BLOCK_KEYS] = sight;
    if (sight != NONE && wants_sums(a)) add_sums(g, before, s, keys_in_block(a, g, j));
}

static void second_pass(Unit &u, Group &g, Floats value, int64_t j) {
    if (g.sight[j / BLOCK_KEYS] == NONE) return;
    int64_t keys = keys_in_block(u.a, g, j);
    if (u.a.kind == KIND_SOFTMAX) weigh<false>(g, g.s + j * LANES, keys, u.p);
    else threshold_weights(u.a.kind, g.top, g.beta, g.total, g.s + j * LANES, keys, u.p);
    values_block(u.p, value, g.s + larger(0, j - BLOCK_KEYS) * LANES, keys, u.a.dv, g.ot);
}
