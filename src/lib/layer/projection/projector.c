// projector.c: see projector.h.
#include "layer/projection/projector.h"

#include "base/host.h"
#include "base/cache.h"
#include "program/kernels.h"

// the measured answers, and a byte that says if they are sure
#define KEPT_BYTES (PLAN_MEASURES + 1)

struct projector {
    os_mutex lock;      // guards the other fields
    os_mutex measuring; // held during a measurement; acquired before `lock`
    bool looked;        // the cache was read, or a measurement has ended
    // CLBlast failed in a call with CLATTN_PROJECTION_AUTO. Later such calls do not try it again.
    bool clblast_failed;
    projection_answer answer;
};

bool cla_projector_create(clattn_context *context) {
    struct projector *p = cla_host_take_zeroed(&context->host, 1, sizeof *p);
    if (p && cla_os_mutex_init_two(&p->lock, &p->measuring)) {
        context->projector = p;
        return true;
    }
    cla_host_release(&context->host, p);
    return false;
}

void cla_projector_destroy(clattn_context *context) {
    cla_clblast_leave(context);
    if (!context->projector) return;
    cla_os_mutex_destroy(&context->projector->lock);
    cla_os_mutex_destroy(&context->projector->measuring);
    cla_host_release(&context->host, context->projector);
    context->projector = NULL;
}

// The cache key of an answer: device, driver, kernels and what is measured.
static void measure_key(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    const clattn_capabilities *of = &c->capabilities;
    static const char what[] = "projection rounds";
    const struct kernel_source *sources[] = {
        &clattn_kernel_sources[KERNEL_LINEAR_LANES], &clattn_kernel_sources[KERNEL_LINEAR_FEW_LANES],
        &clattn_kernel_sources[KERNEL_LINEAR_ROWS], &clattn_kernel_sources[KERNEL_LINEAR_TILES]};
    const uint32_t units = of->compute_units;
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, &units, sizeof units);
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        cla_sha256_add(&h, sources[i]->text, sources[i]->bytes);
    cla_sha256_add(&h, what, sizeof what);
    cla_identity_add(&h, of, c->cpu_model, CLATTN_VERSION_STRING);
    cla_sha256_end(&h, key);
}

static bool is_answer(const unsigned char *bytes, size_t count) {
    bool ok = count == KEPT_BYTES && bytes[PLAN_MEASURES] <= 1;
    for (size_t i = 0; ok && i < PLAN_MEASURES; i++)
        ok = bytes[i] == PLAN_NATIVE_FASTER || bytes[i] == PLAN_CLBLAST_FASTER;
    return ok;
}

// Read the answer from the cache. Nothing is run.
static projection_answer kept_answer(clattn_context *context) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *kept = NULL;
    size_t count = 0;
    projection_answer answer = {.sure = false};
    measure_key(context, key);
    if (!cla_cache_load(context->cache, key, &kept, &count)) return answer;
    if (is_answer(kept, count)) {
        for (int i = 0; i < PLAN_MEASURES; i++) answer.of[i] = (enum plan_measured)kept[i];
        answer.sure = kept[PLAN_MEASURES] != 0;
    }
    cla_host_release(&context->host, kept);
    return answer;
}

static void keep_answer(clattn_context *context, const projection_answer *answer) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char kept[KEPT_BYTES];
    for (int i = 0; i < PLAN_MEASURES; i++) kept[i] = (unsigned char)answer->of[i];
    kept[PLAN_MEASURES] = answer->sure;
    measure_key(context, key);
    cla_cache_store(context->cache, key, kept, sizeof kept);
}

// The answer that was measured in this context, or read from the cache. Planning never measures.
static projection_answer measured(clattn_context *context) {
    struct projector *p = context->projector;
    if (context->no_measurements) return (projection_answer){.sure = false};
    cla_os_mutex_lock(&p->lock);
    if (!p->looked) p->answer = kept_answer(context);
    p->looked = true;
    const projection_answer answer = p->answer;
    cla_os_mutex_unlock(&p->lock);
    return answer;
}

bool cla_projector_begin_measuring(clattn_context *context) {
    struct projector *p = context->projector;
    cla_os_mutex_lock(&p->measuring);
    const bool sure = measured(context).sure;
    if (sure) cla_os_mutex_unlock(&p->measuring);
    return !sure;
}

void cla_projector_end_measuring(clattn_context *context, const projection_answer *answer, bool keep) {
    struct projector *p = context->projector;
    if (keep) keep_answer(context, answer); // otherwise the next measurement tries again
    cla_os_mutex_lock(&p->lock);
    if (answer) p->answer = *answer;
    cla_os_mutex_unlock(&p->lock);
    cla_os_mutex_unlock(&p->measuring);
}

static bool clblast_failed(clattn_context *context) {
    struct projector *p = context->projector;
    cla_os_mutex_lock(&p->lock);
    const bool failed = p->clblast_failed;
    cla_os_mutex_unlock(&p->lock);
    return failed;
}

void cla_projector_clblast_failed(clattn_context *context, clattn_status status) {
    struct projector *p = context->projector;
    cla_os_mutex_lock(&p->lock);
    p->clblast_failed = p->clblast_failed || status != CLATTN_DEVICE_LOST;
    cla_os_mutex_unlock(&p->lock);
}

bool cla_projector_falls_back(clattn_context *context, clattn_projection wanted, bool native) {
    return wanted == CLATTN_PROJECTION_AUTO && !native && clblast_failed(context);
}

// Choose for a call with rows and CLATTN_PROJECTION_AUTO.
static const char *choose(clattn_context *context, linear *l) {
    if (clblast_failed(context)) {
        l->native = true;
        return "CLBlast failed in this context, the log says how";
    }
    if (atomic_load(&context->recording)) {
        l->native = true;
        return "calls are recorded, and CLBlast's launches are its own";
    }
    const bool open = cla_linear_native_is_open(context, l);
    const projection_answer known = open ? measured(context) : (projection_answer){.sure = false};
    l->native = cla_linear_native_wins(context, l, &known);
    if (!l->native && !cla_clblast_available(context)) {
        l->native = true;
        return "there is no CLBlast";
    }
    return cla_linear_why(context, l, &known);
}

clattn_status cla_projector_decide(clattn_context *context, linear *l, clattn_projection wanted, bool no_rows,
                                   const char **why) {
    l->native = wanted != CLATTN_PROJECTION_CLBLAST;
    *why = wanted != CLATTN_PROJECTION_AUTO ? "as asked" : no_rows ? "there are no rows" : choose(context, l);
    return l->native || cla_clblast_available(context) ? CLATTN_OK : cla_clblast_refuse(context);
}
