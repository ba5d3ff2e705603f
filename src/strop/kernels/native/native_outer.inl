// The products that sum over query rows, for the gradients of keys and values: out[j][c] += Σ_r w[j][r] · x[r][c].
// Columns are the lanes here; a weight enters as one number broadcast to all of them. Rows come in groups of LANES, each group's
// weights [keys][LANES] in a piece of their own. A tile sums from zero and is added once, so that long sums stay exact.

struct Piece { const float *w, *x; int64_t rows; };
struct Pieces {
    Piece of[LANES];          // one a group
    int64_t count, x_row;     // x_row: a multiple of W
};

template <int N, int M> static void outer_tile(const Pieces &p, int64_t j, int64_t c, int64_t cols, float *out, int64_t out_row) {
    vf acc[N][M];
    UNROLL for (int n = 0; n < N; n++)
        UNROLL for (int m = 0; m < M; m++) acc[n][m] = splat(0.0f);
    for (int64_t g = 0; g < p.count; g++) {
        const float *w = p.of[g].w + j * LANES, *x = p.of[g].x + c;
        for (int64_t r = 0; r < p.of[g].rows; r++) {
            vf row[M];
            UNROLL for (int m = 0; m < M; m++) row[m] = load(x + r * p.x_row + m * W);
            UNROLL for (int n = 0; n < N; n++) {
                vf weight = splat(w[n * LANES + r]);
                UNROLL for (int m = 0; m < M; m++) acc[n][m] = fma(row[m], weight, acc[n][m]);
            }
        }
    }
    for (int n = 0; n < N; n++)
        for (int m = 0; m < M; m++) {
            float *to = out + n * out_row + m * W;
            if ((m + 1) * W <= cols) store(to, load(to) + acc[n][m]);
            else for (int i = 0; i < W && m * W + i < cols; i++) to[i] += acc[n][m][i];
        }
}

template <int M> static void outer_columns(const Pieces &p, int64_t keys, int64_t c, int64_t cols, float *out, int64_t out_row) {
    int64_t j = 0;
    for (; j + NT <= keys; j += NT) outer_tile<NT, M>(p, j, c, cols, out + j * out_row + c, out_row);
    for (; j < keys; j++) outer_tile<1, M>(p, j, c, cols, out + j * out_row + c, out_row);
}

static void outer_block(const Pieces &p, int64_t keys, int64_t cols, float *out, int64_t out_row) {
    int64_t c = 0;
    for (; c + MV * W <= cols; c += MV * W) outer_columns<MV>(p, keys, c, MV * W, out, out_row);
    for (; c < cols; c += W) outer_columns<1>(p, keys, c, smaller(W, cols - c), out, out_row);
}
