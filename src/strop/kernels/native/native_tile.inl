// The two matrix products, as register tiles: NT × MV vectors accumulate, nothing is packed.
// Query rows are the lanes, so a key or a value enters as one number broadcast to all lanes, straight from where it lies.

constexpr int64_t LINE = 16;   // floats in a cache line
static inline void prefetch(const float *from, int64_t floats) {   // an address only: it may lie past the end of the tensor
    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)(floats * 4)), 0, 2);
}
static inline void prefetch_to_write(const float *from, int64_t floats) {
    __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)(floats * 4)), 1, 3);
}

// Rows of keys or values as float32. The next block lies `ahead` floats further on (0: none) and is fetched into L2 meanwhile, a
// share by each of the `of` groups that use this block. Empty fetches are skipped: they take the place of loads.
struct Floats { const float *at; int64_t row, ahead, part, of; };

// s[j][lane] = Σ_c key[j][c] · qt[c][lane]     for N keys. Kept logits leave L2 for long rows, so the lines that the next tile
// writes are asked for here: a store that misses would hold up all later ones.
template <int N> static void logits_tile(const float *qt, const float *key, int64_t key_row, int64_t ahead, int64_t part, int64_t of,
                                         int64_t d, float *s) {
    vf acc[N][MV];
    UNROLL for (int n = 0; n < N; n++)
        UNROLL for (int m = 0; m < MV; m++) acc[n][m] = splat(0.0f);
    for (int64_t c = 0, stop; c < d; c = stop) {
        stop = smaller(d, c + LINE);
        if (ahead) for (int64_t n = part; n < N; n += of) prefetch(key, ahead + n * key_row + c);
        UNROLL for (int n = 0; n < 4; n++) prefetch_to_write(s, N * LANES + 4 * c + n * LINE);
        for (; c < stop; c++) {
            vf q[MV];
            UNROLL for (int m = 0; m < MV; m++) q[m] = load(qt + c * LANES + m * W);
            UNROLL for (int n = 0; n < N; n++) {
                vf x = splat(key[n * key_row + c]);
                UNROLL for (int m = 0; m < MV; m++) acc[n][m] = fma(q[m], x, acc[n][m]);
            }
        }
    }
    UNROLL for (int n = 0; n < N; n++)
        UNROLL for (int m = 0; m < MV; m++) store(s + n * LANES + m * W, acc[n][m]);
}

// out[c][lane] += Σ_j value[j][c] · p[j][lane]     for N columns c
template <int N>
static void values_tile(const float *p, const float *value, int64_t row, int64_t ahead, const float *next, int64_t keys, float *out) {
    vf acc[N][MV];
    UNROLL for (int n = 0; n < N; n++)
        UNROLL for (int m = 0; m < MV; m++) acc[n][m] = load(out + n * LANES + m * W);
    for (int64_t j = 0; j < keys; j++) {
        vf w[MV];
        if (ahead) prefetch(value, ahead + j * row);
        prefetch(next, 4 * j);
        UNROLL for (int m = 0; m < MV; m++) w[m] = load(p + j * LANES + m * W);
        UNROLL for (int n = 0; n < N; n++) {
            vf x = splat(value[j * row + n]);
            UNROLL for (int m = 0; m < MV; m++) acc[n][m] = fma(w[m], x, acc[n][m]);
        }
    }
    UNROLL for (int n = 0; n < N; n++)
        UNROLL for (int m = 0; m < MV; m++) store(out + n * LANES + m * W, acc[n][m]);
}

static void logits_block(const float *qt, Floats key, int64_t keys, int64_t d, float *s) {
    int64_t j = 0;
    for (; j + NT <= keys; j += NT)
        logits_tile<NT>(qt, key.at + j * key.row, key.row, key.ahead, key.part, key.of, d, s + j * LANES);
    for (; j < keys; j++) logits_tile<1>(qt, key.at + j * key.row, key.row, key.ahead, key.part, key.of, d, s + j * LANES);
}

// `next` is where the following block's logits lie: BLOCK_KEYS · LANES floats, fetched a quarter line a step.
static void values_block(const float *p, Floats value, const float *next, int64_t keys, int64_t dv, float *out) {
    int64_t c = 0;
    for (; c + NT <= dv; c += NT, next += 4 * BLOCK_KEYS) {
        bool fetches = c % LINE == 0 && c / LINE % value.of == value.part;   // this group's lines of the next values
        values_tile<NT>(p, value.at + c, value.row, fetches ? value.ahead : 0, next, keys, out + c * LANES);
    }
    for (; c < dv; c++) values_tile<1>(p, value.at + c, value.row, 0, next, keys, out + c * LANES);
}
