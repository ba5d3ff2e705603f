// One unit of prefill work from start to end: the order in which blocks of keys and values pass by.

static void one_pass(Unit &u, int64_t end) {
    const Args &a = u.a;
    for (int64_t j = 0; j < end; j += BLOCK_KEYS) {
        int64_t keys = smaller(BLOCK_KEYS, end - j);
        Floats key = block_floats(u, a.k, a.ks, j, keys, a.d, u.key_copy), value{nullptr, 0, 0, 0, 1};
        if (a.kind != KIND_STATS) value = block_floats(u, a.v, a.vs, j, keys, a.dv, u.value_copy);
        key.ahead = fetch_ahead(key, u.key_copy, j + BLOCK_KEYS < end);
        value.ahead = fetch_ahead(value, u.value_copy, j + BLOCK_KEYS < end);
        key.of = value.of = u.groups;
        for (int64_t g = 0; g < u.groups; g++) key.part = value.part = g, one_pass_block(u, u.group[g], key, value, j);
    }
}

static void two_passes(Unit &u, int64_t end) {
    const Args &a = u.a;
    for (int64_t j = 0; j < end; j += BLOCK_KEYS) {
        Floats key = block_floats(u, a.k, a.ks, j, smaller(BLOCK_KEYS, end - j), a.d, u.key_copy);
        key.ahead = fetch_ahead(key, u.key_copy, j + BLOCK_KEYS < end);
        key.of = u.groups;
        for (int64_t g = 0; g < u.groups; g++) key.part = g, first_pass(u, u.group[g], key, j);
    }
    for (int64_t g = 0; g < u.groups; g++) choose_sharpness(u, u.group[g]);
    // Backwards: the logits written last are still near.
    for (int64_t j = (end - 1) / BLOCK_KEYS * BLOCK_KEYS; end > 0 && j >= 0; j -= BLOCK_KEYS) {
        Floats value = block_floats(u, a.v, a.vs, j, smaller(BLOCK_KEYS, end - j), a.dv, u.value_copy);
        value.ahead = -fetch_ahead(value, u.value_copy, j > 0);
        value.of = u.groups;
        for (int64_t g = 0; g < u.groups; g++) value.part = g, second_pass(u, u.group[g], value, j);
    }
}

static void block_unit(const Args &a, int64_t index, void *scratch) {
    int64_t in_head = units_in_head(a), height = groups_in_unit(a) * LANES;
    int64_t head = index / in_head, part = in_head - 1 - index % in_head;   // causal rows at the end cost most: start with them
    Unit u{a, head / a.heads, head % a.heads, part * height, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
    Carver c{((uintptr_t)scratch + 63) / 64 * 64, 0};
    carve(u, c);
    u.groups = smaller(groups_in_unit(a), (a.n_q - u.row + LANES - 1) / LANES);
    int64_t end = visible_end(a, smaller(u.row + height, a.n_q) - 1);
    for (int64_t g = 0; g < u.groups; g++) start_group(u, u.group[g], u.row + g * LANES);
    if (keeps_logits(a)) two_passes(u, end);
    else one_pass(u, end);
    for (int64_t g = 0; g < u.groups; g++) finish_group(u, u.group[g]);
}
