// limits_native.c: see limits.h. The instruction set is selected at run time, so that one build
// serves all CPUs.
#include "verification/limits/limits.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <pthread.h>
#include <time.h>

#include "verification/device/measure.h"

// Separate variables, because gcc keeps arrays in memory. They start with different values, so that
// they are not merged.
#define CHAINS 12
#define HALF_CHAINS(DO, mm, a, b, c, d, e, f) DO(a, mm) DO(b, mm) DO(c, mm) DO(d, mm) DO(e, mm) DO(f, mm)
#define EACH_CHAIN(DO, mm) HALF_CHAINS(DO, mm, 0, 1, 2, 3, 4, 5) HALF_CHAINS(DO, mm, 6, 7, 8, 9, 10, 11)

#define MOST_THREADS 256
#define TURNS 1000000 // about 1.5 ms

typedef struct worker {
    pthread_t thread;
    void *(*run)(void *worker);
    float (*loop)(int turns);
    float result;                         // kept, so that the loop is not removed
    double instructions, cpu_ns, wall_ns; // times of the thread, from its start
} worker;

// The loop for one vector width. mm is the prefix of that width's intrinsics.
#define START(k, mm) vector x##k = mm##_set1_ps((float)(turns + k));
#define STEP(k, mm) x##k = mm##_fmadd_ps(x##k, a, b);
#define ADD(k, mm) sum = mm##_add_ps(sum, x##k);
#define LOOP(name, instructions, vector_type, mm)                                                            \
    __attribute__((target(instructions))) static float name(int turns) {                                     \
        typedef vector_type vector;                                                                          \
        const vector a = mm##_set1_ps(0.75f), b = mm##_set1_ps(0.25f);                                       \
        EACH_CHAIN(START, mm)                                                                                \
        for (int i = 0; i < turns; i++) {                                                                    \
            EACH_CHAIN(STEP, mm)                                                                             \
        }                                                                                                    \
        vector sum = mm##_setzero_ps();                                                                      \
        EACH_CHAIN(ADD, mm)                                                                                  \
        return mm##_cvtss_f32(sum);                                                                          \
    }
LOOP(loop_avx512, "avx512f", __m512, _mm512)
LOOP(loop_avx2, "avx2,fma", __m256, _mm256)

static double thread_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *work(void *user) {
    worker *w = user;
    const uint64_t start = measure_clock_ns();
    w->result = w->loop(TURNS);
    w->cpu_ns = thread_ns();
    w->wall_ns = (double)(measure_clock_ns() - start);
    return NULL;
}

static double run_ns(worker *workers, unsigned count) {
    const uint64_t start = measure_clock_ns();
    unsigned started = 0;
    while (started < count &&
           pthread_create(&workers[started].thread, NULL, workers[started].run, &workers[started]) == 0)
        started++;
    for (unsigned i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
    return started == count ? (double)(measure_clock_ns() - start) : 0.0;
}

static unsigned worker_count(unsigned threads) {
    return threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
}

double limits_native_fma_gflops(unsigned threads, double max_ms, double *cores_share) {
    static worker workers[MOST_THREADS];
    const bool wide = __builtin_cpu_supports("avx512f");
    const unsigned count = worker_count(threads);
    double least = 0.0, ran = 0.0, all = 0.0;
    *cores_share = 0.0;
    if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0.0;
    for (unsigned i = 0; i < count; i++)
        workers[i] = (worker){.run = work, .loop = wide ? loop_avx512 : loop_avx2};
    const uint64_t start = measure_clock_ns();
    for (int i = 0; i < 50; i++) { // many short runs, so that one of them is undisturbed
        if (i && max_ms > 0.0 && (double)(measure_clock_ns() - start) > 1e6 * max_ms) break;
        const double ns = run_ns(workers, count);
        if (ns > 0.0 && (least == 0.0 || ns < least)) least = ns;
        for (unsigned t = 0; t < count && ns > 0.0; t++) ran += workers[t].cpu_ns, all += workers[t].wall_ns;
    }
    if (all > 0.0) *cores_share = ran / all;
    const double flops = 2.0 * CHAINS * (wide ? 16.0 : 8.0) * TURNS * (double)count;
    return least > 0.0 ? flops / least : 0.0;
}

#define BLOCKS 400
#define BLOCK "512" // instructions

// Nanoseconds of a chain of multiplications of three cycles each. This measures the clock even if
// the core is shared.
static double chain_ns(void) {
    const uint64_t start = measure_clock_ns();
    uint64_t x = 3;
    for (int i = 0; i < BLOCKS; i++) __asm__ volatile(".rept " BLOCK "\n\timul %0, %0\n\t.endr" : "+r"(x));
    return (double)(measure_clock_ns() - start);
}

// Nanoseconds of the same number of five-byte instructions without effect.
static double nothing_ns(void) {
    const uint64_t start = measure_clock_ns();
    for (int i = 0; i < BLOCKS; i++)
        __asm__ volatile(".rept " BLOCK "\n\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t.endr");
    return (double)(measure_clock_ns() - start);
}

static void *count_instructions(void *user) {
    worker *w = user;
    double chain = chain_ns(), nothing = nothing_ns();
    for (int i = 0; i < 20; i++) {
        const double c = chain_ns(), n = nothing_ns();
        if (c < chain) chain = c;
        if (n < nothing) nothing = n;
    }
    w->instructions = nothing > 0.0 ? chain / 3.0 / nothing : 0.0;
    return NULL;
}

double limits_native_instructions(unsigned threads) {
    static worker workers[MOST_THREADS];
    const unsigned count = worker_count(threads);
    for (unsigned i = 0; i < count; i++) workers[i] = (worker){.run = count_instructions};
    if (run_ns(workers, count) == 0.0) return 0.0;
    double least = workers[0].instructions;
    for (unsigned i = 1; i < count; i++)
        if (workers[i].instructions < least) least = workers[i].instructions;
    return least;
}
#else
double limits_native_instructions(unsigned threads) {
    (void)threads;
    return 0.0;
}

double limits_native_fma_gflops(unsigned threads, double max_ms, double *cores_share) {
    (void)threads, (void)max_ms;
    *cores_share = 0.0;
    return 0.0;
}
#endif
