// After the passes over the keys: β or threshold from what the first pass found, and the rows' results.

// After the first pass: β from the entropy (base-2 sums give H/ln 2), or the threshold.
static void choose_sharpness(Unit &u, Group &g) {
    const Args &a = u.a;
    for (int m = 0; m < MV; m++) g.top[m] = g.x.max[m];
    if (a.kind != KIND_SOFTMAX) return find_thresholds(a.kind, g.s, g.sight, visible_end(a, g.row + g.rows - 1), g.top, g.beta);
    for (int64_t r = 0; r < g.rows; r++) {
        double sum = g.sum[r / W][r % W], moment = g.moment[r / W][r % W];
        double beta = beta_of_row(a, {u.b, u.h, g.row + r}, fmax(0.0, log(sum) - moment / sum * 0.6931471805599453));
        if (!(beta > 1e-30 && beta < 1e30)) g.odd[r] = 1;
        else g.beta[r / W][r % W] = float(beta * 1.4426950408889634);
    }
}

static bool sees_nothing(const Group &g, int64_t r) {
    return g.x.min[r / W][r % W] == __builtin_inff() && g.x.bad[r / W][r % W] == 0.0f;
}
static bool needs_care(const Args &a, const Group &g, int64_t r) {
    int64_t m = r / W, i = r % W;
    if (g.odd[r] || g.x.bad[m][i] != 0.0f || g.x.max[m][i] <= DEEP) return true;
    if (wants_sums(a) && !(g.sum[m][i] - g.sum[m][i] == 0.0f && g.moment[m][i] - g.moment[m][i] == 0.0f)) return true;
    return a.kind != KIND_STATS && !(g.total[m][i] > 0.0f && g.total[m][i] - g.total[m][i] == 0.0f);
}

// Divide by the totals; a lane whose output is not finite is marked odd (a hidden NaN value may have leaked into it).
static void normalise(Unit &u, Group &g) {
    const Args &a = u.a;
    for (int m = 0; m < MV; m++) {
        vf factor = splat(0.0f), bad = splat(0.0f);
        for (int i = 0; i < W; i++) {
            int64_t r = m * W + i;
            if (r >= g.rows || g.odd[r] || sees_nothing(g, r)) continue;
            double total = g.total[m][i], share = 1.0;
            if (a.sink) share = sink_factor(a, {u.b, u.h, g.row + r}, tempered_lse(g.top[m][i], g.beta[m][i], total));
            factor[i] = float(share / total);
            g.share[r] = factor[i];
        }
        for (int64_t c = 0; c < a.dv; c++) {
            vf x = load(g.ot + c * LANES + m * W) * factor;
            bad = fma(x, splat(0.0f), bad);
            store(g.ot + c * LANES + m * W, x);
        }
        for (int i = 0; i < W; i++) if (bad[i] != 0.0f) g.odd[m * W + i] = 1;
    }
}

static void write_rows(Unit &u, Group &g) {
    const Args &a = u.a;
    int64_t at = u.b * a.os.batch + u.h * a.os.head + g.row * a.os.row;
    if (!a.bf16) return transpose(g.ot, LANES, a.dv, g.rows, (float *)a.out + at, a.os.row);
    transpose(g.ot, LANES, a.dv, g.rows, u.spare, a.dv);
    for (int64_t r = 0; r < g.rows; r++)
        for (int64_t c = 0; c < a.dv; c++) ((uint16_t *)a.out)[at + r * a.os.row + c] = store_bf16(u.spare[r * a.dv + c]);
}

static void finish_group(Unit &u, Group &g) {
    const Args &a = u.a;
    for (int64_t r = 0; r < g.rows; r++) g.odd[r] = !sees_nothing(g, r) && needs_care(a, g, r);
    if (a.kind != KIND_STATS) normalise(u, g), write_rows(u, g);
    for (int64_t r = 0; r < g.rows; r++) {
        int64_t m = r / W, i = r % W;
        Row row{u.b, u.h, g.row + r};
        RowSums sums{g.x.max[m][i], g.x.min[m][i], g.sum[m][i], g.moment[m][i], g.x.n_keys[m][i]};
        if (g.odd[r]) careful_row(a, row, u.doubles);
        else if (a.n_keys) write_stats(a, row, sums);
        if (a.rows && !g.odd[r]) write_planes(a, row, sums, g.beta[m][i], g.share[r]);
    }
}
