// Attention on the CPU for the temperature family, sparsemax and 1.5-entmax: see docs/native.md for the picture.
// The same kernel text is compiled once for each instruction set and one is chosen at run time; a plain C door lets ctypes in.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "native.h"
#include "native_careful.h"
#include "native_careful_backward.h"

#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define KERNELS(NAME)                                                                                                        \
    constexpr Kernels kernels = {NAME,          block_units,  block_scratch, block_unit, decodes, decode_shared, decode_units,      \
                                 decode_unit, back_units, back_scratch,  back_unit};

namespace strop {

namespace baseline {
constexpr int W = 4, MV = 2, NT = 4;
#include "native_vec.inl"
#include "native_tile.inl"
#include "native_mask.inl"
#include "native_gaps.inl"
#include "native_threshold.inl"
#include "native_block.inl"
#include "native_finish.inl"
#include "native_unit.inl"
#include "native_decode.inl"
#include "native_outer.inl"
#include "native_flow.inl"
#include "native_backward.inl"
KERNELS("baseline")
}  // namespace baseline

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
#define STROP_AVX2
constexpr int W = 8, MV = 3, NT = 4;
#include "native_vec.inl"
#include "native_tile.inl"
#include "native_mask.inl"
#include "native_gaps.inl"
#include "native_threshold.inl"
#include "native_block.inl"
#include "native_finish.inl"
#include "native_unit.inl"
#include "native_decode.inl"
#include "native_outer.inl"
#include "native_flow.inl"
#include "native_backward.inl"
KERNELS("avx2")
#undef STROP_AVX2
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
#endif
namespace avx512 {
#define STROP_AVX512
constexpr int W = 16, MV = 2, NT = 8;
#include "native_vec.inl"
#include "native_tile.inl"
#include "native_mask.inl"
#include "native_gaps.inl"
#include "native_threshold.inl"
#include "native_block.inl"
#include "native_finish.inl"
#include "native_unit.inl"
#include "native_decode.inl"
#include "native_outer.inl"
#include "native_flow.inl"
#include "native_backward.inl"
KERNELS("avx512")
#undef STROP_AVX512
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

static const Kernels *find_kernels(int32_t level) {   // 0 baseline, 1 AVX2 with FMA, 2 AVX-512; null where this machine lacks it
    if (level == 0) return &baseline::kernels;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (level == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2::kernels;
    if (level == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return &avx512::kernels;
#endif
    return nullptr;
}

constexpr int BLOCKS = -1, BACKWARD = -2;   // phases; those of decoding count from 0
struct Job {
    const Args *a;
    const Kernels *k;
    int64_t units;
    int phase;
    char *scratch;       // one piece a thread; decoding: one for the call
    int64_t piece;
    std::atomic<int64_t> next, worker;
    const Flow *flow;    // backward only
    Turns turns;
};

static void work(void *data) {
    Job &job = *(Job *)data;
    void *scratch = job.scratch + (job.phase < 0 ? job.piece * job.worker.fetch_add(1) : 0);
    for (int64_t unit; (unit = job.next.fetch_add(1)) < job.units;) {
        if (job.phase == BLOCKS) job.k->block_unit(*job.a, unit, scratch);
        else if (job.phase == BACKWARD) job.k->back_unit(*job.a, *job.flow, unit, scratch, job.turns);
        else job.k->decode_unit(*job.a, job.phase, unit, scratch);
    }
}

// torch's own OpenMP team where its GOMP_parallel was found (no second pool, no oversubscription), else plain threads.
typedef void (*GompParallel)(void (*)(void *), void *, unsigned, unsigned);
static void parallel(Job &job, int64_t threads, GompParallel gomp) {
    threads = smaller(threads, job.units);
    if (threads <= 1) return work(&job);
    if (gomp) return gomp(work, &job, (unsigned)threads, 0);
    std::vector<std::thread> team;
    for (int64_t i = 1; i < threads; i++) team.emplace_back(work, &job);
    work(&job);
    for (std::thread &t : team) t.join();
}

static void run_phase(Job &job, int phase, int64_t units, int64_t threads, GompParallel gomp) {
    job.phase = phase, job.units = units, job.next = 0, job.worker = 0;
    parallel(job, threads, gomp);
}

// Large pages where the system grants them: kept logits fill thousands of small ones, more than the processor remembers.
static char *allocate(int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr size_t PAGE = 2 << 20;
    void *found = nullptr;
    if (bytes >= (int64_t)PAGE) {
        size_t whole = ((size_t)bytes + PAGE - 1) / PAGE * PAGE;
        if (posix_memalign(&found, PAGE, whole)) return nullptr;
        madvise(found, whole, MADV_HUGEPAGE);   // advice: a refusal only costs time
        return (char *)found;
    }
#endif
    return (char *)malloc((size_t)bytes);
}

// Working memory outlives a call, since the system takes up to 2 % of a long one to find fresh large pages. One piece waits for the
// next call; calls at the same time find none and allocate their own.
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t MOST_WAITING = 0;   // every call gets just what it asked for, so that a step beyond is seen
#else
constexpr int64_t MOST_WAITING = 64 << 20;
#endif
struct Memory {
    struct Piece { char *at; int64_t bytes; };
    static inline std::atomic<Piece *> waiting{nullptr};
    Piece *piece;

    explicit Memory(int64_t bytes) : piece(waiting.exchange(nullptr)) {
        if (piece && piece->bytes >= bytes) return;
        drop(piece);
        char *at = allocate(bytes);
        piece = at ? new (std::nothrow) Piece{at, bytes} : nullptr;
        if (!piece) free(at);
    }
    ~Memory() { drop(piece && piece->bytes <= MOST_WAITING ? waiting.exchange(piece) : piece); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    static void drop(Piece *old) {
        if (old) free(old->at);
        delete old;
    }
};

}  // namespace strop

#if defined(_WIN32)
#define DOOR extern "C" __declspec(dllexport)
#else
#define DOOR extern "C" __attribute__((visibility("default")))
#endif

DOOR int64_t strop_native_abi(void) { return strop::ABI_VERSION * 100000 + (int64_t)(sizeof(strop::Args) + sizeof(strop::Flow)); }

DOOR const char *strop_native_level(int32_t level) {
    const strop::Kernels *k = strop::find_kernels(level);
    return k ? k->name : nullptr;
}

// 0 done, 1 out of memory, 2 no such instruction set here.
DOOR int32_t strop_native_run(const strop::Args *a, int32_t level, void *gomp_parallel) {
    using namespace strop;
    const Kernels *k = find_kernels(level);
    if (!k) return 2;
    if (a->batch * a->heads * a->n_q == 0) return 0;
    bool decode = k->decodes(*a);
    int64_t units = decode ? 0 : k->block_units(*a), piece = decode ? k->decode_shared(*a) : k->block_scratch(*a);
    int64_t team = decode ? 1 : larger(1, smaller(a->threads, units));
    Memory memory(piece * team);
    if (!memory.piece) return 1;
    Job job{a, k, 0, BLOCKS, memory.piece->at, piece, {0}, {0}, nullptr, {}};
    if (!decode) run_phase(job, BLOCKS, units, a->threads, (GompParallel)gomp_parallel);
    for (int phase = 0; decode && phase < 4; phase++) {
        int64_t heads = k->decode_units(*a, phase);
        bool alone = phase % 2 && heads < 256;   // merges are small: waking the team would cost more
        run_phase(job, phase, heads, alone ? 1 : a->threads, (GompParallel)gomp_parallel);
    }
    return 0;
}

// As above. Heads that share a bias whose gradient is wanted take turns with each other.
DOOR int32_t strop_native_backward(const strop::Args *a, const strop::Flow *f, int32_t level, void *gomp_parallel) {
    using namespace strop;
    const Kernels *k = find_kernels(level);
    if (!k) return 2;
    if (a->batch * a->heads * a->n_q == 0) return 0;
    int64_t units = k->back_units(*a), chains = a->batch * a->heads / a->group, piece = (k->back_scratch(*a) + 63) / 64 * 64;
    bool common = f->d_bias && ((a->batch > 1 && !f->d_biass.batch) || (a->heads > 1 && !f->d_biass.head));
    bool apart = !f->d_k && !f->d_v && !(f->d_bias && (common || !f->d_biass.row));
    int64_t team = larger(1, smaller(a->threads, units)), of_turns = units * (int64_t)sizeof(std::atomic<int32_t>);
    Memory memory(piece * team + of_turns);
    if (!memory.piece) return 1;
    auto *passed = (std::atomic<int32_t> *)(memory.piece->at + piece * team);
    for (int64_t i = 0; i < units; i++) new (passed + i) std::atomic<int32_t>(INT32_MAX);
    chains = apart ? units : common ? 1 : chains;
    Job job{a, k, 0, BACKWARD, memory.piece->at, piece, {0}, {0}, f, {passed, chains, units / chains}};
    run_phase(job, BACKWARD, units, a->threads, (GompParallel)gomp_parallel);
    return 0;
}
