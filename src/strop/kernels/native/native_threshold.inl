// Sparsemax and 1.5-entmax (arXiv 1602.02068, 1905.05702) on logits at hand: with u = (α - 1)·(e - max),
//   w = [u - τ]_+^(1/(α - 1)),   τ in [-1, 0) such that Σ w = 1.
// The sum is convex and falls in τ, so Newton's steps from τ = -1 climb to the root and never pass it; for sparsemax they
// end exactly, when the support stops shrinking. Lanes that are done take steps of nothing. Sums run per block, then over blocks.

static inline float power_scale(int kind) { return kind == KIND_ENTMAX15 ? 0.5f : 1.0f; }

struct Above { vf first[MV], second[MV], count[MV]; };   // Σ (u - τ)_+, Σ (u - τ)_+², how many

static void add_above(float alpha, const vf *top, const vf *tau, const float *s, int64_t keys, Above &all) {
    for (int m = 0; m < MV; m++) {
        vf first = splat(0.0f), second = splat(0.0f), count = splat(0.0f);
        for (int64_t j = 0; j < keys; j++) {
            vf over = (load(s + j * LANES + m * W) - top[m]) * splat(alpha) - tau[m];
            count += select(over > splat(0.0f), splat(1.0f), splat(0.0f));
            over = maximum(over, splat(0.0f));
            first += over;
            second = fma(over, over, second);
        }
        all.first[m] += first, all.second[m] += second, all.count[m] += count;
    }
}

static bool newton_step(int kind, const Above &all, vf *tau) {
    bool moved = false;
    for (int m = 0; m < MV; m++)
        for (int i = 0; i < W; i++) {
            float slope = kind == KIND_SPARSEMAX ? all.count[m][i] : 2.0f * all.first[m][i];
            float step = ((kind == KIND_SPARSEMAX ? all.first[m][i] : all.second[m][i]) - 1.0f) / slope;
            if (!(step > 1e-7f)) continue;   // also where a NaN makes it meaningless
            tau[m][i] += step;
            moved = true;
        }
    return moved;
}

static void find_thresholds(int kind, const float *s, const uint8_t *sight, int64_t end, const vf *top, vf *tau) {
    for (int m = 0; m < MV; m++) tau[m] = splat(-1.0f);
    for (int round = 0; round < 64; round++) {
        Above all = {};
        for (int64_t j = 0; j < end; j += BLOCK_KEYS)
            if (sight[j / BLOCK_KEYS]) add_above(power_scale(kind), top, tau, s + j * LANES, smaller(BLOCK_KEYS, end - j), all);
        if (!newton_step(kind, all, tau)) break;
    }
}

static void threshold_weights(int kind, const vf *top, const vf *tau, vf *total, const float *s, int64_t keys, float *p) {
    const vf alpha = splat(power_scale(kind));
    for (int m = 0; m < MV; m++) {
        vf sum = splat(0.0f);
        for (int64_t j = 0; j < keys; j++) {
            vf over = maximum((load(s + j * LANES + m * W) - top[m]) * alpha - tau[m], splat(0.0f));
            vf w = kind == KIND_ENTMAX15 ? over * over : over;
            store(p + j * LANES + m * W, w);
            sum += w;
        }
        total[m] += sum;
    }
}
