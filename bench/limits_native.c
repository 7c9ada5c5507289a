// limits_native.c: see limits_native.h. The instructions are chosen at run time, so that one build serves
// all.
#include "bench/limits_native.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <pthread.h>

#include "tool/tool.h"

// Variables and not an array, which gcc keeps in memory; with values of their own, or they become one.
#define CHAINS 12
#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

#define MOST_THREADS 256
#define TURNS 1000000 // about a millisecond and a half

typedef struct worker {
    pthread_t thread;
    float (*loop)(int turns);
    float result; // kept, so that the loop is not removed
} worker;

__attribute__((target("avx512f"))) static float loop_avx512(int turns) {
    const __m512 a = _mm512_set1_ps(0.75f), b = _mm512_set1_ps(0.25f);
#define START(k) __m512 x##k = _mm512_set1_ps((float)(turns + k));
#define STEP(k) x##k = _mm512_fmadd_ps(x##k, a, b);
#define ADD(k) sum = _mm512_add_ps(sum, x##k);
    EACH_CHAIN(START)
    for (int i = 0; i < turns; i++) {
        EACH_CHAIN(STEP)
    }
    __m512 sum = _mm512_setzero_ps();
    EACH_CHAIN(ADD)
#undef START
#undef STEP
#undef ADD
    return _mm512_cvtss_f32(sum);
}

__attribute__((target("avx2,fma"))) static float loop_avx2(int turns) {
    const __m256 a = _mm256_set1_ps(0.75f), b = _mm256_set1_ps(0.25f);
#define START(k) __m256 x##k = _mm256_set1_ps((float)(turns + k));
#define STEP(k) x##k = _mm256_fmadd_ps(x##k, a, b);
#define ADD(k) sum = _mm256_add_ps(sum, x##k);
    EACH_CHAIN(START)
    for (int i = 0; i < turns; i++) {
        EACH_CHAIN(STEP)
    }
    __m256 sum = _mm256_setzero_ps();
    EACH_CHAIN(ADD)
#undef START
#undef STEP
#undef ADD
    return _mm256_cvtss_f32(sum);
}

static void *work(void *user) {
    worker *w = user;
    w->result = w->loop(TURNS);
    return NULL;
}

static double run_ns(worker *workers, unsigned count) {
    const uint64_t start = tool_time_ns();
    unsigned started = 0;
    while (started < count && pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    for (unsigned i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
    return started == count ? (double)(tool_time_ns() - start) : 0.0;
}

double bench_native_fma_gflops(unsigned threads) {
    static worker workers[MOST_THREADS];
    const bool wide = __builtin_cpu_supports("avx512f");
    const unsigned count = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    double least = 0.0;
    if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0.0;
    for (unsigned i = 0; i < count; i++) workers[i].loop = wide ? loop_avx512 : loop_avx2;
    for (int i = 0; i < 50; i++) { // short and many: one of them runs undisturbed
        const double ns = run_ns(workers, count);
        if (ns > 0.0 && (least == 0.0 || ns < least)) least = ns;
    }
    const double flops = 2.0 * CHAINS * (wide ? 16.0 : 8.0) * TURNS * (double)count;
    return least > 0.0 ? flops / least : 0.0;
}
#else
double bench_native_fma_gflops(unsigned threads) {
    (void)threads;
    return 0.0;
}
#endif
