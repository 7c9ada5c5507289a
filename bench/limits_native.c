// limits_native.c: see limits_native.h. The instructions are chosen at run time, so that one build serves
// all.
#include "bench/limits_native.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <pthread.h>

#include "tool/tool.h"

#define CHAINS 12
#define MOST_THREADS 256
#define TURNS 4000000

typedef struct worker {
    pthread_t thread;
    float (*loop)(int turns);
    float result; // kept, so that the loop is not removed
} worker;

__attribute__((target("avx512f"))) static float loop_avx512(int turns) {
    __m512 x[CHAINS];
    const __m512 a = _mm512_set1_ps(0.75f), b = _mm512_set1_ps(0.25f);
    for (int k = 0; k < CHAINS; k++) x[k] = _mm512_set1_ps((float)k);
    for (int i = 0; i < turns; i++)
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++) x[k] = _mm512_fmadd_ps(x[k], a, b);
    for (int k = 1; k < CHAINS; k++) x[0] = _mm512_add_ps(x[0], x[k]);
    return _mm512_cvtss_f32(x[0]);
}

__attribute__((target("avx2,fma"))) static float loop_avx2(int turns) {
    __m256 x[CHAINS];
    const __m256 a = _mm256_set1_ps(0.75f), b = _mm256_set1_ps(0.25f);
    for (int k = 0; k < CHAINS; k++) x[k] = _mm256_set1_ps((float)k);
    for (int i = 0; i < turns; i++)
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++) x[k] = _mm256_fmadd_ps(x[k], a, b);
    for (int k = 1; k < CHAINS; k++) x[0] = _mm256_add_ps(x[0], x[k]);
    return _mm256_cvtss_f32(x[0]);
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
    for (int i = 0; i < 4; i++) {
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
