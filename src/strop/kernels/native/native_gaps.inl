// How far below a row's highest logit its keys lie (arXiv 2605.12697), in bins of an eighth of a nat on a grid of the logits themselves:
// a key's place is ⌊8·e⌋, and count b is of the keys b places below the top. A row's counts lie in the output and are those of the keys
// so far: where a block raises the top, they first move down by as many places, and what falls out is forgotten, as far keys are. The
// grid does not move with the top, so nothing is rounded twice, and any cut into blocks gives the same counts. Lanes are rows, so no
// two of a vector add to one count. The last number of a row takes the keys that are too far, or hidden, and nobody reads it.

static vf place_of(vf e) { return floor_of(e * splat(GAPS_IN_NAT)); }
// NaN, as before there is any top, is far. A row with a NaN in it, which the careful path will count, may lie above its own maximum.
static vi places_below(vf top, vf place) {
    return __builtin_convertvector(maximum(minimum(top - place, splat(GAP_BINS)), splat(0.0f)), vi);
}

static void lower_counts(int32_t *counts, int64_t places) {
    memmove(counts + places, counts, (GAP_BINS - places) * sizeof *counts);
    memset(counts, 0, places * sizeof *counts);
}

static void count_gaps(const Args &a, Row first, int64_t rows, const vf *before, const vf *now, const float *s, int64_t keys) {
    int32_t *counts = a.gaps + row_index(a, first) * GAP_ROW;
    vf top[MV];
    vi below[MV];
    for (int m = 0; m < MV; m++) top[m] = place_of(now[m]), below[m] = places_below(top[m], place_of(before[m]));
    for (int64_t r = 0; r < rows; r++)
        if (below[r / W][r % W]) lower_counts(counts + r * GAP_ROW, below[r / W][r % W]);
    for (int64_t j = 0; j < keys; j++) {
        for (int m = 0; m < MV; m++) below[m] = places_below(top[m], place_of(load(s + j * LANES + m * W)));
        for (int64_t r = 0; r < rows; r++) counts[r * GAP_ROW + below[r / W][r % W]]++;
    }
}
