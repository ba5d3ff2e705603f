// The gradient of LANES rows, element by element. With p the weights at β = 1, w those at β, dP = dout·v, y = e − max and μ = Σ p·e,
//   D = Σ w·dP                                    t = w·(dP − D)              the gradient of β·e
//   dβ = Σ t·e                                    dsink = −exp(sink − total)·D
//   de = β·t + p·(a + c·(e − μ))                  the gradient of e
// in which a and c bring what flows into a row's statistics: a = dlogsumexp + dmean, and c = dmean − dβ·β′(H) where β is a function
// of the entropy. A threshold has de = ω·(dP − Σ ω·dP / Σ ω), with ω = w^(2 − α): 1 on the support of sparsemax, √w for 1.5-entmax.
// Σ w·dP·y and Σ w·y give dβ without a third pass: Σ t·y = Σ w·dP·y − D·Σ w·y.

struct Lanes {
    vf top[MV], beta[MV], total[MV], sum[MV], middle[MV];         // the planes
    vf flow[MV], mass[MV], lever[MV], arm[MV];                    // sums over keys: ω·dP, ω, w·dP·y, w·y
    vf gain[MV], delta[MV], lift[MV], lean[MV], high[MV], low[MV];   // β, β·D, a − c·(μ − max), c, what each extreme gets
};

static void gather(const Args &a, Lanes &l, const float *s, const float *p, int64_t keys) {
    vf flow[MV], mass[MV], lever[MV], arm[MV];
    UNROLL for (int m = 0; m < MV; m++) flow[m] = mass[m] = lever[m] = arm[m] = splat(0.0f);
    if (a.kind == KIND_SOFTMAX) {
        for (int64_t j = 0; j < keys; j++)
            UNROLL for (int m = 0; m < MV; m++) {
                vf y = load(s + j * LANES + m * W) - l.top[m], w = power_of_two(y * l.beta[m]), t = w * load(p + j * LANES + m * W);
                flow[m] += t;
                mass[m] += w;
                lever[m] = fma(t, y, lever[m]);
                arm[m] = fma(w, y, arm[m]);
            }
    } else {
        const vf alpha = splat(power_scale(a.kind));
        for (int64_t j = 0; j < keys; j++)
            UNROLL for (int m = 0; m < MV; m++) {
                vf over = maximum((load(s + j * LANES + m * W) - l.top[m]) * alpha - l.beta[m], splat(0.0f));
                if (a.kind == KIND_SPARSEMAX) over = select(over > splat(0.0f), splat(1.0f), splat(0.0f));
                flow[m] = fma(over, load(p + j * LANES + m * W), flow[m]);
                mass[m] += over;
            }
    }
    for (int m = 0; m < MV; m++) l.flow[m] += flow[m], l.mass[m] += mass[m], l.lever[m] += lever[m], l.arm[m] += arm[m];
}

// Logits become their gradients, and dP the weights.
template <int KIND, bool LEAN> static void change(const Lanes &l, float *s, float *p, int64_t keys) {
    const vf zero = splat(0.0f), alpha = splat(power_scale(KIND));
    for (int64_t j = 0; j < keys; j++)
        UNROLL for (int m = 0; m < MV; m++) {
            vf y = load(s + j * LANES + m * W) - l.top[m], de = zero;
            if (KIND == KIND_SOFTMAX) {
                vf w = power_of_two(y * l.beta[m]) * l.total[m];
                de = w * fma(l.gain[m], load(p + j * LANES + m * W), zero - l.delta[m]);
                store(p + j * LANES + m * W, w);
            } else if (KIND != KIND_STATS) {
                vf over = maximum(y * alpha - l.beta[m], zero);
                vf slope = KIND == KIND_SPARSEMAX ? select(over > zero, splat(1.0f), zero) : over;
                de = slope * (load(p + j * LANES + m * W) - l.delta[m]);
                store(p + j * LANES + m * W, (KIND == KIND_SPARSEMAX ? over : over * over) * l.total[m]);
            }
            if (LEAN) {   // far below, where the weight is 0, y may be too large to multiply
                vf e = power_of_two(y * splat(LOG2E)) * l.sum[m];
                de = fma(e, fma(l.lean[m], maximum(y, splat(-1e4f)), l.lift[m]), de);
            }
            store(s + j * LANES + m * W, de);
        }
}
typedef void (*Change)(const Lanes &, float *, float *, int64_t);
static Change change_of(const Args &a, bool lean) {
    static const Change plain[] = {change<KIND_SOFTMAX, false>, change<KIND_SPARSEMAX, false>, change<KIND_ENTMAX15, false>, change<KIND_STATS, false>};
    static const Change leaning[] = {change<KIND_SOFTMAX, true>, change<KIND_SPARSEMAX, true>, change<KIND_ENTMAX15, true>, change<KIND_STATS, true>};
    return (lean ? leaning : plain)[a.kind];
}

// What the gradients of a row's largest and smallest logit add; keys that share the place share it.
static void extreme_change(const Lanes &l, const Extremes &x, const float *s, int64_t keys, float *extra) {
    for (int64_t j = 0; j < keys; j++)
        for (int m = 0; m < MV; m++) {
            vf e = load(s + j * LANES + m * W);
            store(extra + j * LANES + m * W, select(e == x.max[m], l.high[m], splat(0.0f)) + select(e == x.min[m], l.low[m], splat(0.0f)));
        }
}
static void count_extremes(const Extremes &x, const float *s, int64_t keys, Lanes &l) {
    for (int64_t j = 0; j < keys; j++)
        for (int m = 0; m < MV; m++) {
            vf e = load(s + j * LANES + m * W);
            l.high[m] += select(e == x.max[m], splat(1.0f), splat(0.0f));
            l.low[m] += select(e == x.min[m], splat(1.0f), splat(0.0f));
        }
}

// From sums over the row to the numbers of `change`, and the row's dβ and dsink. False where they are not finite.
static bool choose_flow(const Args &a, const Flow &f, Row r, Lanes &l, int64_t lane) {
    int64_t m = lane / W, i = lane % W, at = row_index(a, r);
    double d_mean = given(f.d_mean, at), lift = given(f.d_logsumexp, at) + d_mean, lean = d_mean, middle = l.middle[m][i];
    double gain = 1.0, delta = l.mass[m][i] > 0 ? l.flow[m][i] / l.mass[m][i] : 0.0, d_beta = 0, d_sink = 0;
    if (a.kind == KIND_SOFTMAX) {
        gain = float(l.beta[m][i] * 0.6931471805599453);
        // The forward pass may have rounded its logits otherwise (few rows are decoded): a mass of its own, or weights would not sum to 1.
        double sunk = a.sink ? exp(a.sink[r.b * a.sinks.batch + r.h * a.sinks.head + r.i * a.sinks.row] - l.top[m][i] * gain) : 0.0;
        double total = l.total[m][i] > 0 && l.mass[m][i] > 0 ? 1.0 / (l.mass[m][i] + sunk) : 0.0;   // 0: a row that sees nothing
        delta = l.flow[m][i] * total;
        d_beta = (double(l.lever[m][i]) - delta * l.arm[m][i]) * total;
        d_sink = -sunk * total * delta;
        l.total[m][i] = float(total);
        d_beta -= l.top[m][i] * d_sink;
        if (f.slope && l.sum[m][i] > 0) lean -= d_beta * polynomial_slope(a, fmax(0.0, -log(l.sum[m][i]) - middle));
    }
    l.gain[m][i] = float(gain), l.delta[m][i] = float(gain * delta), l.lean[m][i] = float(lean), l.lift[m][i] = float(lift - lean * middle);
    l.high[m][i] = l.high[m][i] > 0 ? float(given(f.d_max, at) / l.high[m][i]) : 0.0f;
    l.low[m][i] = l.low[m][i] > 0 ? float(given(f.d_min, at) / l.low[m][i]) : 0.0f;
    if (f.d_beta) f.d_beta[at] = float(d_beta);
    if (f.d_sink) f.d_sink[at] = float(d_sink);
    double all = gain * delta + lean + lift + d_beta + d_sink;
    return all - all == 0;
}
