// Vectors of W floats for the instruction set at hand, by GCC/Clang vector extensions so that the same text serves x86 and ARM.
// Included once per instruction set, inside its own namespace. LANES query rows live side by side in MV vectors.

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));
typedef uint8_t vb __attribute__((vector_size(W)));
typedef float vf_any __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef uint8_t vb_any __attribute__((vector_size(W), aligned(1), may_alias));
constexpr int LANES = MV * W;

static inline vf load(const float *p) { return *(const vf_any *)p; }
static inline void store(float *p, vf x) { *(vf_any *)p = x; }
static inline vf select(vi which, vf a, vf b) { return (vf)((which & (vi)a) | (~which & (vi)b)); }

#if defined(STROP_AVX512)
static inline vf splat(float x) { return (vf)_mm512_set1_ps(x); }
static inline vf fma(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline vf maximum(vf a, vf b) { return (vf)_mm512_maskz_max_ps((__mmask16)-1, (__m512)a, (__m512)b); }
static inline vf minimum(vf a, vf b) { return (vf)_mm512_maskz_min_ps((__mmask16)-1, (__m512)a, (__m512)b); }
static inline vf floor_of(vf x) { return (vf)_mm512_maskz_roundscale_ps((__mmask16)-1, (__m512)x, 0x09); }
#elif defined(STROP_AVX2)
static inline vf splat(float x) { return (vf)_mm256_set1_ps(x); }
static inline vf fma(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline vf maximum(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vf minimum(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline vf floor_of(vf x) { return (vf)_mm256_floor_ps((__m256)x); }
#else
static inline vf splat(float x) { return vf{x, x, x, x}; }
static inline vf fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf maximum(vf a, vf b) { return select(a > b, a, b); }
static inline vf minimum(vf a, vf b) { return select(a < b, a, b); }
static inline vf floor_of(vf x) {
    for (int i = 0; i < W; i++) x[i] = floorf(x[i]);
    return x;
}
#endif

// 2^y for y <= 0 (a little above is fine), 0 below the normal numbers. Relative error below 2e-7. Not for NaN: rows that hold one
// are found by other means. The polynomials are relative minimax fits of degree 5 with p(0) = 1.
#if defined(STROP_AVX512)
static inline vf power_of_two(vf y) {   // f = y - floor(y); ±inf gives f = 0, and scalef then does the right thing
    vf f = (vf)_mm512_maskz_reduce_ps((__mmask16)-1, (__m512)y, 0x09);
    vf p = fma(splat(1.867129817e-03f), f, splat(9.017030708e-03f));
    p = fma(p, f, splat(5.579991266e-02f));
    p = fma(p, f, splat(2.401644439e-01f));
    p = fma(p, f, splat(6.931512952e-01f));
    p = fma(p, f, splat(1.0f));
    return (vf)_mm512_maskz_scalef_ps((__mmask16)-1, (__m512)p, (__m512)y);
}
#else
static inline vf power_of_two(vf y) {   // adding 1.5·2^23 rounds to the nearest integer and leaves it in the low bits
    const vf magic = splat(12582912.0f);
    vf shifted = y + magic;
    vf f = y - (shifted - magic);
    vf p = fma(splat(1.326471451e-03f), f, splat(9.671512991e-03f));
    p = fma(p, f, splat(5.550733954e-02f));
    p = fma(p, f, splat(2.402224243e-01f));
    p = fma(p, f, splat(6.931470037e-01f));
    p = fma(p, f, splat(1.0f));
    vu raised = (vu)p + ((vu)shifted << 23);   // unsigned: far below, where it is thrown away, it may wrap
    return (vf)((vu)(y >= splat(-126.0f)) & raised);
}
#endif

static inline bool any(vi x) {
    int32_t all = 0;
    for (int i = 0; i < W; i++) all |= x[i];
    return all != 0;
}
static inline float sum_of(vf x) {   // by halves, which is quicker and rounds less than one after the other
#if defined(STROP_AVX512)
    return _mm512_reduce_add_ps((__m512)x);
#else
    for (int half = W / 2; half > 0; half /= 2) for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
#endif
}

// out[c][r] = in[r][c] for a rows × cols corner, row strides in floats.
static inline void transpose(const float *in, int64_t in_row, int64_t rows, int64_t cols, float *out, int64_t out_row) {
    typedef float v4 __attribute__((vector_size(16)));
    typedef float v4_any __attribute__((vector_size(16), aligned(4), may_alias));
    int64_t r = 0;
#if __has_builtin(__builtin_shufflevector)
    for (; r + 4 <= rows; r += 4) {
        int64_t c = 0;
        for (; c + 4 <= cols; c += 4) {
            const float *p = in + r * in_row + c;
            v4 a = *(const v4_any *)p, b = *(const v4_any *)(p + in_row);
            v4 e = *(const v4_any *)(p + 2 * in_row), f = *(const v4_any *)(p + 3 * in_row);
            v4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            v4 ef_low = __builtin_shufflevector(e, f, 0, 4, 1, 5), ef_high = __builtin_shufflevector(e, f, 2, 6, 3, 7);
            float *o = out + c * out_row + r;
            *(v4_any *)o = __builtin_shufflevector(ab_low, ef_low, 0, 1, 4, 5);
            *(v4_any *)(o + out_row) = __builtin_shufflevector(ab_low, ef_low, 2, 3, 6, 7);
            *(v4_any *)(o + 2 * out_row) = __builtin_shufflevector(ab_high, ef_high, 0, 1, 4, 5);
            *(v4_any *)(o + 3 * out_row) = __builtin_shufflevector(ab_high, ef_high, 2, 3, 6, 7);
        }
        for (; c < cols; c++)
            for (int i = 0; i < 4; i++) out[c * out_row + r + i] = in[(r + i) * in_row + c];
    }
#endif
    for (; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) out[c * out_row + r] = in[r * in_row + c];
}
