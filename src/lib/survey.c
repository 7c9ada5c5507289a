// survey.c: clattn_device_survey. It creates a context and compiles kernels of whole calls. So it
// needs all parts of the library, as context.c and measure.c do.
#include "device/context.h"

#include "base/cache.h"
#include "device/driver_quirks.h"
#include "probe/probe.h"
#include "probe/survey.h"
#include "program/unfit.h"

static clattn_status refuse(const clattn_log *log, const char *why) {
    cla_log_send(log, CLATTN_LOG_ERROR, "survey: %s", why);
    return CLATTN_INVALID_ARGUMENT;
}

// Compile the kernels of common calls. A kernel that does not build is a result of the survey, not
// an error.
static void build_common(clattn_context *c) {
    static const struct {
        clattn_type type;
        int64_t rows;
    } calls[] = {{CLATTN_TYPE_F32, 4096},
                 {CLATTN_TYPE_BF16, 4096},
                 {CLATTN_TYPE_F16, 4096},
                 {CLATTN_TYPE_F32, 1},
                 {CLATTN_TYPE_F16, 1}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, calls[i].type, 1, 32, calls[i].rows, 128),
                                     .kv.k = clattn_tensor_bhsd(NULL, calls[i].type, 1, 8, 4096, 128)};
        p.kv.v = p.kv.k, p.out = p.q;
        (void)clattn_attention_prepare(c, &p);
    }
}

clattn_status clattn_device_survey(const clattn_context_params *params, bool resume) {
    clattn_context *c = NULL;
    if (!params) return CLATTN_INVALID_ARGUMENT;
    if (!params->cache_dir) return refuse(&params->log, "cache_dir is NULL: a survey is kept there");
    const clattn_context_params own = {.device = params->device,
                                       .context = params->context,
                                       .log = params->log,
                                       .cache_dir = params->cache_dir,
                                       .cache_max_bytes = params->cache_max_bytes,
                                       .measure_again = params->measure_again && !resume,
                                       .engines = params->engines,
                                       .clblast_path = params->clblast_path,
                                       .host_memory = params->host_memory};
    TRY(clattn_context_create(&own, &c));
    if (!cla_cache_keeps(c->cache)) {
        clattn_context_destroy(c);
        return refuse(&params->log, "cache_dir: the folder is not usable: a survey is kept there");
    }
    bool known;
    // Discard an earlier survey's result.
    c->capabilities.assembly = cla_known_assembly(&c->capabilities, &known);
    c->surveys = true, c->tries_again = !resume;
    if (!resume) cla_unfit_forget(c);
    cla_survey_store(c, false);
    cla_survey_assembly(c);
    cla_context_request_engines(c, params->engines);
    (void)cla_probe_results(c, ~0u);
    build_common(c);
    cla_survey_store(c, true);
    clattn_context_destroy(c);
    return CLATTN_OK;
}
