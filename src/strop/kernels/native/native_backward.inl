// The backward pass: a unit is a few groups of LANES query rows of one head, as in the forward pass, and keeps both their logits and
// dP = dout·v. Pass one forms them and sums what a row must know; pass two turns them into gradients of the logits and weights, and
// multiplies: five products in all, as plain attention has. Gradients of keys and values grow in place, unit after unit (Turns).

constexpr int64_t BACK_ROWS = 64, BACK_KEPT = 16 << 20;   // of a unit: rows, and bytes of logits and dP

struct BackGroup {
    Group g;                 // `ot` holds the query's gradient [d][LANES]
    float *p, *dt;           // dP, then weights [keys][LANES]; dout [dv][LANES]
    float *q_rows, *o_rows;  // scaled queries and dout as rows of padded width
    Lanes l;
    uint8_t odd[LANES], strange_q[LANES], strange_o[LANES];   // strange: not finite, and so kept out of the products over rows
    bool any_odd, any_strange;
};
struct BackUnit {
    Unit u;
    const Flow &f;
    Turns &turns;
    int64_t id;
    BackGroup *group;
    float *extra, *slope, *held_s, *held_p;
};

static int64_t back_groups(const Args &a) {
    int64_t fit = BACK_KEPT / (padded(larger(a.n_k, 1), BLOCK_KEYS) * LANES * 8);
    return larger(1, smaller(smaller(BACK_ROWS / LANES, fit), (a.n_q + LANES - 1) / LANES));
}
static int64_t back_units_in_head(const Args &a) { return (a.n_q + back_groups(a) * LANES - 1) / (back_groups(a) * LANES); }
static int64_t back_units(const Args &a) { return a.batch * a.heads * back_units_in_head(a); }

static void carve_back(BackUnit &w, Carver &c) {
    const Args &a = w.u.a;
    int64_t kept = padded(a.n_k, BLOCK_KEYS) * LANES, groups = back_groups(a);
    w.group = c.take<BackGroup>(groups);
    w.u.key_copy = c.take<float>(BLOCK_KEYS * (a.d + 16));
    w.u.value_copy = c.take<float>(BLOCK_KEYS * (a.dv + 16));
    w.u.spare = c.take<float>(larger(BLOCK_KEYS, larger(a.d, a.dv)) * LANES);
    w.u.visible = c.take<uint8_t>(BLOCK_KEYS * LANES);
    w.u.doubles = c.take<double>(careful_back_scratch(a));
    w.extra = c.take<float>(BLOCK_KEYS * LANES), w.slope = c.take<float>(BLOCK_KEYS * LANES);
    w.held_s = c.take<float>(BLOCK_KEYS * LANES), w.held_p = c.take<float>(BLOCK_KEYS * LANES);
    float *q_rows = c.take<float>(groups * LANES * padded(a.d, W)), *o_rows = c.take<float>(groups * LANES * padded(a.dv, W));
    for (int64_t i = 0; i < groups; i++) {
        float *qt = c.take<float>(a.d * LANES), *ot = c.take<float>(a.d * LANES), *dt = c.take<float>(a.dv * LANES);
        float *s = c.take<float>(kept), *p = c.take<float>(kept);
        uint8_t *sight = c.take<uint8_t>(key_blocks(a));
        if (!c.base) continue;
        BackGroup &b = w.group[i];
        b.g.qt = qt, b.g.ot = ot, b.g.s = s, b.g.sight = sight, b.p = p, b.dt = dt;
        b.q_rows = q_rows + i * LANES * padded(a.d, W), b.o_rows = o_rows + i * LANES * padded(a.dv, W);
    }
}
static int64_t back_scratch(const Args &a) {
    Flow f{};
    Turns turns{};
    BackUnit w{{a, 0, 0, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr}, f, turns, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
    Carver measure{0, 0};
    carve_back(w, measure);
    return (int64_t)measure.used + 64;
}

// Rows as floats of padded width, and transposed; one that is not finite becomes zeros and is marked.
static void load_back_rows(const Args &a, const void *base, int64_t at, int64_t row, int64_t count, int64_t cols, float scale,
                           float *rows, float *across, uint8_t *strange) {
    int64_t width = padded(cols, W);
    memset(rows, 0, LANES * width * 4);
    memset(across, 0, cols * LANES * 4);
    memset(strange, 0, LANES);
    for (int64_t r = 0; r < count; r++) {
        float *to = rows + r * width, bad = 0.0f;
        as_floats(a, base, at + r * row, cols, to);
        for (int64_t c = 0; c < cols; c++) to[c] *= scale, bad += to[c] * 0.0f;
        if (bad == 0.0f) continue;
        strange[r] = 1;
        memset(to, 0, cols * 4);
    }
    transpose(rows, width, count, cols, across, LANES);
}

static void load_planes(const Args &a, Row first, int64_t rows, Lanes &l, uint8_t *odd) {
    memset(&l, 0, sizeof l);
    int64_t at = row_index(a, first), count = a.batch * a.heads * a.n_q;
    for (int64_t r = 0; r < rows; r++) {
        const float *plane = a.rows + at + r;
        bool ordinary = plane[PLANE_TOP * count] == plane[PLANE_TOP * count];
        odd[r] = !ordinary;
        if (!ordinary) continue;
        int64_t m = r / W, i = r % W;
        l.top[m][i] = plane[PLANE_TOP * count], l.beta[m][i] = plane[PLANE_BETA * count], l.total[m][i] = plane[PLANE_TOTAL * count];
        l.sum[m][i] = plane[PLANE_SUM * count], l.middle[m][i] = plane[PLANE_MIDDLE * count];
    }
}

static void start_back(BackUnit &w, BackGroup &b, int64_t row) {
    const Args &a = w.u.a;
    const Flow &f = w.f;
    Group &g = b.g;
    g.row = row, g.rows = smaller(LANES, a.n_q - row);
    memset(b.odd, 0, LANES), memset(b.strange_q, 0, LANES), memset(b.strange_o, 0, LANES);
    load_planes(a, {w.u.b, w.u.h, row}, g.rows, b.l, b.odd);
    int64_t q = w.u.b * a.qs.batch + w.u.h * a.qs.head + row * a.qs.row;
    load_back_rows(a, a.q, q, a.qs.row, g.rows, a.d, a.scale, b.q_rows, g.qt, b.strange_q);
    int64_t o = w.u.b * f.d_outs.batch + w.u.h * f.d_outs.head + row * f.d_outs.row;
    if (f.d_out) load_back_rows(a, f.d_out, o, f.d_outs.row, g.rows, a.dv, 1.0f, b.o_rows, b.dt, b.strange_o);
    memset(g.ot, 0, a.d * LANES * 4);
    for (int m = 0; m < MV; m++) {
        g.x.max[m] = splat(HIDDEN), g.x.min[m] = splat(__builtin_inff());
        g.x.bad[m] = splat(0.0f), g.x.n_keys[m] = vi{};
    }
}

static void back_first(BackUnit &w, BackGroup &b, Floats key, Floats value, int64_t j) {
    const Args &a = w.u.a;
    float *s = b.g.s + j * LANES, *p = b.p + j * LANES;
    Sight sight = block_logits(w.u, b.g, key, j, smaller(BLOCK_KEYS, a.n_k - j), s, w.f.d_max || w.f.d_min);
    b.g.sight[j / BLOCK_KEYS] = sight;
    if (sight == NONE || a.kind == KIND_STATS) return;
    int64_t keys = keys_in_block(a, b.g, j);
    logits_block(b.dt, value, keys, a.dv, p);
    for (int64_t i = 0; sight == SOME && i < keys * LANES; i += W) store(p + i, select(load(s + i) == splat(HIDDEN), splat(0.0f), load(p + i)));
    gather(a, b.l, s, p, keys);
}

// Rows that only the careful path can do get their lanes from it. It adds to the bias's gradient at once: all before must be done.
static void back_choose(BackUnit &w, BackGroup &b, int64_t end) {
    const Args &a = w.u.a;
    Group &g = b.g;
    for (int64_t j = 0; (w.f.d_max || w.f.d_min) && j < end; j += BLOCK_KEYS)
        if (g.sight[j / BLOCK_KEYS]) count_extremes(g.x, g.s + j * LANES, keys_in_block(a, g, j), b.l);
    b.any_odd = b.any_strange = false;
    for (int64_t r = 0; r < g.rows; r++) {
        Row row{w.u.b, w.u.h, g.row + r};
        b.any_strange |= b.strange_q[r] || b.strange_o[r];
        b.odd[r] |= b.strange_q[r] || b.strange_o[r];
        if (!b.odd[r]) b.odd[r] = !choose_flow(a, w.f, row, b.l, r);
        if (!b.odd[r]) continue;
        b.any_odd = true;
        if (w.f.d_bias) w.turns.wait(w.id, -1);
        careful_back(a, w.f, row, w.u.doubles, g.s + r, b.p + r, LANES);
    }
}

static void set_lanes(const BackGroup &b, float *s, const float *from, int64_t keys) {   // of odd rows
    for (int64_t r = 0; r < LANES; r++)
        for (int64_t j = 0; b.odd[r] && j < keys; j++) s[j * LANES + r] = from ? from[j * LANES + r] : 0.0f;
}

// d tanh: 1 − (e/cap)², of the logit before its bias.
static void cap_slope(BackUnit &w, BackGroup &b, int64_t j, int64_t keys, const float *s) {
    const Args &a = w.u.a;
    memcpy(w.slope, s, keys * LANES * 4);
    if (a.bias) add_bias(a, {w.u.b, w.u.h, b.g.row, b.g.rows, j, keys}, w.slope, w.u.spare, -1.0f);
    for (int64_t i = 0; i < keys * LANES; i += W) {
        vf part = load(w.slope + i) * splat(1.0f / a.softcap);
        store(w.slope + i, maximum(splat(1.0f) - part * part, splat(0.0f)));
    }
}

static void add_bias_change(BackUnit &w, BackGroup &b, int64_t j, int64_t keys, const float *s) {
    const Flow &f = w.f;
    float *to = f.d_bias + w.u.b * f.d_biass.batch + w.u.h * f.d_biass.head + b.g.row * f.d_biass.row + j * f.d_biass.col;
    if (f.d_biass.row == 0) {
        for (int64_t k = 0; k < keys; k++) {
            float total = 0;
            for (int64_t r = 0; r < b.g.rows; r++) total += s[k * LANES + r];
            to[k * f.d_biass.col] += total;
        }
        return;
    }
    transpose(s, LANES, keys, b.g.rows, w.u.spare, BLOCK_KEYS);
    for (int64_t r = 0; r < b.g.rows; r++)
        for (int64_t k = 0; k < keys; k++) to[r * f.d_biass.row + k * f.d_biass.col] += w.u.spare[r * BLOCK_KEYS + k];
}

// Pass two of one group and block, up to the query's gradient; keys past its sight become zeros, as the others of the unit may see them.
static void back_second(BackUnit &w, BackGroup &b, Floats key, int64_t j, int64_t wide) {
    const Args &a = w.u.a;
    float *s = b.g.s + j * LANES, *p = b.p + j * LANES;
    int64_t keys = keys_in_block(a, b.g, j);
    if (b.any_odd) memcpy(w.held_s, s, keys * LANES * 4), memcpy(w.held_p, p, keys * LANES * 4);
    if (a.softcap > 0) cap_slope(w, b, j, keys, s);
    bool extremes = w.f.d_max || w.f.d_min, lean = w.f.slope || w.f.d_logsumexp || w.f.d_mean;
    if (extremes) extreme_change(b.l, b.g.x, s, keys, w.extra);
    change_of(a, lean)(b.l, s, p, keys);
    for (int64_t i = 0; extremes && i < keys * LANES; i += W) store(s + i, load(s + i) + load(w.extra + i));
    if (b.any_odd) set_lanes(b, s, nullptr, keys);
    if (w.f.d_bias) w.turns.wait(w.id, j / BLOCK_KEYS), add_bias_change(w, b, j, keys, s);
    for (int64_t i = 0; a.softcap > 0 && i < keys * LANES; i += W) store(s + i, load(s + i) * load(w.slope + i));
    if (b.any_odd) set_lanes(b, s, w.held_s, keys), set_lanes(b, p, w.held_p, keys);
    memset(s + keys * LANES, 0, (wide - keys) * LANES * 4), memset(p + keys * LANES, 0, (wide - keys) * LANES * 4);
    if (w.f.d_q) values_block(s, key, s, keys, a.d, b.g.ot);
}

// A strange row's part in the gradients of the keys and values that it sees: 0 times it would reach the others.
static void add_strange(BackUnit &w, BackGroup &b, int64_t j, int64_t keys, float *d_k, float *d_v) {
    const Args &a = w.u.a;
    const Flow &f = w.f;
    for (int64_t r = 0; r < b.g.rows; r++)
        for (int64_t k = 0; k < keys; k++) {
            Row row{w.u.b, w.u.h, b.g.row + r};
            if (!(b.strange_q[r] || b.strange_o[r]) || !sees(a, row, j + k)) continue;
            int64_t q = row.b * a.qs.batch + row.h * a.qs.head + row.i * a.qs.row;
            int64_t o = row.b * f.d_outs.batch + row.h * f.d_outs.head + row.i * f.d_outs.row;
            float ds = b.g.s[(j + k) * LANES + r] * a.scale, p = b.p[(j + k) * LANES + r];
            for (int64_t c = 0; d_k && b.strange_q[r] && c < a.d; c++) d_k[k * f.d_ks.row + c] += ds * element(a, a.q, q + c);
            for (int64_t c = 0; d_v && b.strange_o[r] && c < a.dv; c++) d_v[k * f.d_vs.row + c] += p * element(a, f.d_out, o + c);
        }
}

static void back_keys(BackUnit &w, int64_t j, int64_t wide) {
    const Args &a = w.u.a;
    const Flow &f = w.f;
    int64_t kv = w.u.h / a.group;
    float *d_k = f.d_k ? f.d_k + w.u.b * f.d_ks.batch + kv * f.d_ks.head + j * f.d_ks.row : nullptr;
    float *d_v = f.d_v ? f.d_v + w.u.b * f.d_vs.batch + kv * f.d_vs.head + j * f.d_vs.row : nullptr;
    Pieces key{{}, 0, padded(a.d, W)}, value{{}, 0, padded(a.dv, W)};
    for (int64_t i = 0; i < w.u.groups; i++) {
        BackGroup &b = w.group[i];
        if (b.g.sight[j / BLOCK_KEYS] == NONE) continue;
        key.of[key.count++] = {b.g.s + j * LANES, b.q_rows, b.g.rows};
        value.of[value.count++] = {b.p + j * LANES, b.o_rows, b.g.rows};
    }
    w.turns.wait(w.id, j / BLOCK_KEYS);
    if (d_k) outer_block(key, wide, a.d, d_k, f.d_ks.row);
    if (d_v) outer_block(value, wide, a.dv, d_v, f.d_vs.row);
    for (int64_t i = 0; i < w.u.groups; i++)
        if (w.group[i].any_strange) add_strange(w, w.group[i], j, wide, d_k, d_v);
    w.turns.pass(w.id, j / BLOCK_KEYS);
}

// A row whose gradient is not finite (a hidden NaN key may have leaked into it) is summed again over the keys that it sees.
static void careful_query(const Args &a, const Flow &f, Row r, const float *ds, double *sums) {
    int64_t k = r.b * a.ks.batch + (r.h / a.group) * a.ks.head, to = r.b * f.d_qs.batch + r.h * f.d_qs.head + r.i * f.d_qs.row;
    for (int64_t c = 0; c < a.d; c++) sums[c] = 0.0;
    for (int64_t j = 0; j < a.n_k; j++)
        for (int64_t c = 0; sees(a, r, j) && c < a.d; c++) sums[c] += double(ds[j * LANES]) * element(a, a.k, k + j * a.ks.row + c);
    for (int64_t c = 0; c < a.d; c++)
        if (a.bf16) ((uint16_t *)f.d_q)[to + c] = store_bf16(float(sums[c] * a.scale));
        else ((float *)f.d_q)[to + c] = float(sums[c] * a.scale);
}

static void write_query(BackUnit &w, BackGroup &b) {
    const Args &a = w.u.a;
    const Flow &f = w.f;
    vf bad[MV];
    for (int m = 0; m < MV; m++) bad[m] = splat(0.0f);
    for (int64_t c = 0; c < a.d; c++)
        for (int m = 0; m < MV; m++) {
            vf x = load(b.g.ot + c * LANES + m * W) * splat(a.scale);
            bad[m] = fma(x, splat(0.0f), bad[m]);
            store(b.g.ot + c * LANES + m * W, x);
        }
    int64_t at = w.u.b * f.d_qs.batch + w.u.h * f.d_qs.head + b.g.row * f.d_qs.row;
    transpose(b.g.ot, LANES, a.d, b.g.rows, a.bf16 ? w.u.spare : (float *)f.d_q + at, a.bf16 ? a.d : f.d_qs.row);
    for (int64_t r = 0; a.bf16 && r < b.g.rows; r++)
        for (int64_t c = 0; c < a.d; c++) ((uint16_t *)f.d_q)[at + r * f.d_qs.row + c] = store_bf16(w.u.spare[r * a.d + c]);
    for (int64_t r = 0; r < b.g.rows; r++)
        if (b.odd[r] || bad[r / W][r % W] != 0.0f) careful_query(a, f, {w.u.b, w.u.h, b.g.row + r}, b.g.s + r, w.u.doubles);
}

// Which unit comes at a place of the queue: chains side by side, one for each thread, so that units seldom wait for each other.
static int64_t unit_at(const Args &a, const Turns &turns, int64_t place) {
    int64_t abreast = larger(1, smaller(a.threads, turns.chains)), bundle = place / (abreast * turns.length);
    int64_t chains = smaller(abreast, turns.chains - bundle * abreast), in = place - bundle * abreast * turns.length;
    return (bundle * abreast + in % chains) * turns.length + in / chains;
}

static void back_unit(const Args &a, const Flow &f, int64_t place, void *scratch, Turns &turns) {
    int64_t id = unit_at(a, turns, place), in_head = back_units_in_head(a), height = back_groups(a) * LANES;
    int64_t head = id / in_head, part = in_head - 1 - id % in_head;
    BackUnit w{{a, head / a.heads, head % a.heads, part * height, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr}, f, turns, id, nullptr, nullptr, nullptr, nullptr, nullptr};
    Carver c{((uintptr_t)scratch + 63) / 64 * 64, 0};
    carve_back(w, c);
    w.u.groups = smaller(back_groups(a), (a.n_q - w.u.row + LANES - 1) / LANES);
    int64_t end = visible_end(a, smaller(w.u.row + height, a.n_q) - 1);
    for (int64_t i = 0; i < w.u.groups; i++) start_back(w, w.group[i], w.u.row + i * LANES);
    for (int64_t j = 0; j < end; j += BLOCK_KEYS) {
        int64_t keys = smaller(BLOCK_KEYS, end - j);
        Floats key = block_floats(w.u, a.k, a.ks, j, keys, a.d, w.u.key_copy), value{nullptr, 0, 0, 0, 1};
        if (a.kind != KIND_STATS) value = block_floats(w.u, a.v, a.vs, j, keys, a.dv, w.u.value_copy);
        for (int64_t i = 0; i < w.u.groups; i++) back_first(w, w.group[i], key, value, j);
    }
    for (int64_t i = 0; i < w.u.groups; i++) back_choose(w, w.group[i], end);
    for (int64_t j = (end - 1) / BLOCK_KEYS * BLOCK_KEYS; end > 0 && j >= 0; j -= BLOCK_KEYS) {
        int64_t wide = smaller(BLOCK_KEYS, end - j);
        Floats key = block_floats(w.u, a.k, a.ks, j, wide, a.d, w.u.key_copy);
        for (int64_t i = 0; i < w.u.groups; i++)
            if (w.group[i].g.sight[j / BLOCK_KEYS] != NONE) back_second(w, w.group[i], key, j, wide);
        back_keys(w, j, wide);
    }
    for (int64_t i = 0; f.d_q && i < w.u.groups; i++) write_query(w, w.group[i]);
    turns.wait(id, -1);
    turns.pass(id, -1);
}
