// attend.c: the command `clattn attend`: attention on files.
#include "verification/device/measure.h"
#include "verification/device/opencl.h"
#include "verification/words/words.h"
#include "cli/attend/attend.h"
#include "cli/common/compiling.h"
#include "cli/common/report.h"
#include "cli/common/progress.h"

static const char *const layout_names[] = {"bhsd", "bshd", NULL};
static const option_row attend_rows[] = {
    {"q", "FILE", "[B,H,Nq,D] queries: .npy or FILE.safetensors#TENSOR", AS_TEXT(attend, q)},
    {"k", "FILE", "[B,Hkv,Nkv,D] keys; H is a multiple of Hkv", AS_TEXT(attend, k)},
    {"v", "FILE", "[B,Hkv,Nkv,Dv] values", AS_TEXT(attend, v)},
    {"layout", "NAME", "order of the files' axes: bhsd (the default), or bshd for [B,N,H,D]",
     AS_YES(attend, bshd, layout_names)},
    {"out", "FILE", "output [B,H,Nq,Dv], .npy", AS_OUTPUT(attend, out)},
    {"lse", "FILE", "log-sum-exp [B,H,Nq]", AS_OUTPUT(attend, lse)},
    {"weights", "FILE", "attention weights [B,H,Nq,Nkv]", AS_OUTPUT(attend, weights)},
    {"scores", "FILE", "scores [B,H,Nq,Nkv] at the point that --scores-at names", AS_OUTPUT(attend, scores)},
    {"scores-at", "TAP", "which scores: raw, softcap (after it), masked, or softmax (after it)",
     AS_CHOICE(attend, scores_at, names_taps)},
    {"dropout-mask", "FILE", "which weights --dropout keeps, bool [B,H,Nq,Nkv]",
     AS_OUTPUT(attend, dropout_mask)},
    {"kv-type", "TYPE", "how K and V are stored on the device: " STORE_TYPES_HELP,
     AS_CHOICE(attend, stores.type, store_names)},
    {"v-type", "TYPE", "how V is stored if not as K: a type of --kv-type",
     AS_CHOICE(attend, v_type, store_names)},
    {"kv-rotation", "N",
     "Hadamard-transform K and V, in blocks of N columns, before --kv-type stores them in 8 or 4 bits; q and "
     "the result are transformed with them",
     AS_INTEGER(attend, kv_rotation, 2, 1024)},
    {"kv-group", "N", "how many numbers of a row share a scale: a multiple of 32; default: the whole row",
     AS_INTEGER(attend, stores.group, 32, INT32_MAX)},
    {"kv-scales", "TYPE", "type of the scales: f32, which is the default, f16 or bf16",
     AS_CHOICE(attend, stores.scales, names_types)},
    {"kv-zeros", NULL, "store zero points beside the scales, so that each group uses the type's whole range",
     AS_SWITCH(attend, stores.zeros)},
    {"dtype", "TYPE", "storage type of q, k, v and the output: f32, f16 or bf16; default: the files' own",
     AS_CHOICE(attend, dtype, names_types)},
};

static int check_options(const attend *a) {
    if (!a->q || !a->k || !a->v || !a->out)
        return tool_wrong("--%s FILE is needed; see clattn attend --help", !a->q   ? "q"
                                                                           : !a->k ? "k"
                                                                           : !a->v ? "v"
                                                                                   : "out");
    if (a->dropout_mask && a->several.devices)
        return tool_wrong("--dropout-mask: works on one device only: not with --devices");
    if (a->scores_at >= 0 && !a->scores)
        return tool_wrong("--scores-at: has no effect without --scores FILE");
    if (a->dropout_mask && a->score.score.dropout == 0.0f)
        return tool_wrong("--dropout-mask: has no effect without --dropout P");
    return -1;
}

// Choose how K (stored[0]) and V (stored[1]) are stored. store_check then rejects options of scales
// if neither K nor V has scales.
static int choose_stores(attend *a) {
    int status = store_choose(&a->stores, a->stores.type, &a->stored[0]);
    if (status < 0) status = store_choose(&a->stores, a->v_type, &a->stored[1]);
    for (int n = 0; n < 2; n++)
        if (a->stored[n].type != CLATTN_TYPE_F32) a->stored[n].rotation = (int32_t)a->kv_rotation;
    return status < 0 ? store_check(&a->stores, a->stored, 2) : status;
}

static int load_inputs(attend *a) {
    int status = check_options(a);
    if (a->v_type < 0) a->v_type = a->stores.type;
    if (status < 0) status = choose_stores(a);
    if (status < 0 && a->kv_rotation && a->stored[0].type == CLATTN_TYPE_F32 &&
        a->stored[1].type == CLATTN_TYPE_F32)
        status = tool_wrong("--kv-rotation: has no effect without --kv-type of 8 or 4 bits");
    if (status < 0) status = attend_gradients_check(a);
    if (status < 0 && a->ranks.wanted) return attend_shared_find(a);
    if (status < 0) status = tensors_load("q", a->q, 4, &a->q_array);
    if (status < 0) status = tensors_load("k", a->k, 4, &a->k_array);
    if (status < 0) status = tensors_load("v", a->v, 4, &a->v_array);
    if (status < 0) status = attend_store(a);
    if (status < 0) status = attend_gradients_load(a);
    return status >= 0 ? status
                       : attend_options(a, a->q_array.shape[0], a->q_array.shape[a->bshd ? 2 : 1],
                                        a->k_array.shape[0]);
}

static int save_outputs(attend *a, tensors *t) {
    const clattn_attention_params *p = &a->params;
    int status = tensors_save(t, &p->out, &a->out_array, a->out);
    if (status < 0) status = tensors_save(t, &p->lse, &a->lse_array, a->lse);
    if (status < 0) status = tensors_save(t, &p->weights, &a->weights_array, a->weights);
    if (status < 0) status = tensors_save(t, &p->scores, &a->scores_array, a->scores);
    if (status < 0) status = tensors_save(t, &a->dropout.mask, &a->dropout_array, a->dropout_mask);
    if (status < 0) status = attend_gradients_save(a, t);
    return status >= 0 ? status : append_options_save(&a->append, t, &p->kv, &a->k_array, &a->v_array);
}

// Compile the call's kernels. Run the call once, untimed, if the driver compiles at a kernel's
// first launch.
static clattn_status make_ready(const attend *a, session *s, clattn_plan *plan, uint64_t *ready_ns) {
    const clattn_attention_params *p = &a->params;
    compiling *const notice = compiling_begin(s);
    clattn_status done = clattn_attention_plan(s->context, p, plan);
    if (done == CLATTN_OK) done = clattn_attention_prepare(s->context, p);
    *ready_ns = measure_clock_ns();
    if (done == CLATTN_OK && compiling_runs_first(s, report_flops(p))) {
        done = clattn_attention_enqueue(s->context, s->queue, p, 0, NULL, NULL);
        clFinish(s->queue); // A failure of this untimed run shows again in the timed run.
    }
    compiling_end(notice);
    return done;
}

static int run_attend(attend *a, session *s, tensors *t) {
    clattn_plan plan;
    watch seen;
    uint64_t ready = 0;
    int status = attend_upload(a, t);
    if (status < 0) status = attend_outputs(a, t);
    if (status < 0) status = attend_gradients_begin(a, t);
    if (status < 0) status = expect_fits(&a->expect, &a->out_array, a->bshd ? 1 : 2);
    if (status >= 0) return status;
    const clattn_attention_params *p = &a->params;
    const uint64_t start = measure_clock_ns();
    clattn_status done = make_ready(a, s, &plan, &ready);
    const uint64_t begun = measure_clock_ns();
    a->params.progress = watch_begin(&seen, s->options.quiet, report_flops(p));
    if (done == CLATTN_OK) done = clattn_attention_enqueue(s->context, s->queue, p, 0, NULL, NULL);
    watch_end(&seen);
    if (done != CLATTN_OK) return session_status(s, done);
    status = session_finish(s);
    const uint64_t end = measure_clock_ns();
    if (a->dropout_mask) done = clattn_dropout_mask_enqueue(s->context, s->queue, &a->dropout, 0, NULL, NULL);
    if (done != CLATTN_OK) return session_status(s, done);
    if (status < 0) status = attend_gradients_run(a, s);
    if (status < 0) status = save_outputs(a, t);
    if (status >= 0) return status;
    status = expect_check(&a->expect, &a->out_array, a->bshd ? 1 : 2);
    const int told =
        report_run(s, &plan, report_flops(p), end - begun, ready - start, a->out, &a->expect, NULL);
    return status >= 0 ? status : told;
}

static int run_several(attend *a, several *all, tensors *t) {
    session *s = &all->sessions[0];
    watch seen;
    int status = attend_upload(a, t);
    if (status < 0) status = attend_outputs(a, t);
    if (status < 0) status = attend_gradients_begin(a, t);
    if (status < 0) status = expect_fits(&a->expect, &a->out_array, a->bshd ? 1 : 2);
    if (status >= 0) return status;
    a->params.progress = watch_begin(&seen, s->options.quiet, report_flops(&a->params));
    // The program shows no progress for a call this short: about a second. If the call needs
    // longer, the driver is compiling: report that.
    compiling *const notice = report_flops(&a->params) < WATCH_LEAST_FLOPS ? compiling_begin(s) : NULL;
    uint64_t start = measure_clock_ns();
    clattn_status done = several_run(all, &a->params);
    compiling_end(notice);
    if (done == CLATTN_OK && compiling_runs_first(s, report_flops(&a->params))) {
        start = measure_clock_ns();
        done = several_run(all, &a->params);
    }
    const uint64_t end = measure_clock_ns();
    watch_end(&seen);
    if (done == CLATTN_OK && a->gradients.out) done = several_run_backward(all, &a->gradients.params);
    if (done != CLATTN_OK) return session_status(s, done);
    status = save_outputs(a, t);
    if (status >= 0) return status;
    status = expect_check(&a->expect, &a->out_array, a->bshd ? 1 : 2);
    const int told = several_report(all, report_flops(&a->params), end - start, a->out, &a->expect);
    return status >= 0 ? status : told;
}

// Run on the devices of --devices.
static int open_several(attend *a) {
    several all; // must not move: the contexts log to its sessions
    const int status = several_open(&all, &a->several, &a->common, false);
    if (status >= 0) return status;
    tensors t = {.session = &all.sessions[0], .host = true};
    const int ran = run_several(a, &all, &t);
    tensors_release(&t);
    several_close(&all);
    return ran;
}

// Run on one device. `status` is the result of loading the inputs. All ranks agree on the worst
// status.
static int open_and_run(attend *a, int status) {
    session s = {0};
    if (status < 0) status = session_open(&s, &a->common);
    const bool opened = status < 0;
    status = ranks_agree(&a->ranks, status);
    if (!opened) return status;
    tensors t = {.session = &s};
    if (status < 0) status = a->ranks.wanted ? attend_shared_run(a, &s) : run_attend(a, &s, &t);
    tensors_release(&t);
    session_close(&s);
    return status;
}

static void free_attend(attend *a) {
    array *const all[] = {&a->q_array,   &a->k_array,       &a->v_array,      &a->out_array,
                          &a->lse_array, &a->weights_array, &a->scores_array, &a->dropout_array};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) array_free(all[i]);
    score_options_free(&a->score);
    kv_options_free(&a->kv);
    rope_options_free(&a->rope);
    ragged_options_free(&a->ragged);
    append_options_free(&a->append);
    expect_free(&a->expect);
    attend_gradients_free(&a->gradients);
    if (a->ranks.wanted) attend_shared_free(a);
}

int tool_attend(int argc, char **argv) {
    attend a = {.stores = {.option = "kv", .type = -1, .scales = -1},
                .scores_at = -1,
                .v_type = -1,
                .dtype = -1,
                .rope = {.layout = -1}};
    const option_group groups[] = {{"tensors", OPTION_ROWS(attend_rows), &a},
                                   rope_group(&a.rope),
                                   score_group(&a.score),
                                   kv_group(&a.kv),
                                   ragged_group(&a.ragged),
                                   ranks_group(&a.ranks),
                                   append_group(&a.append),
                                   attend_gradients_group(&a.gradients),
                                   several_group(&a.several),
                                   expect_group(&a.expect),
                                   common_group(&a.common)};
    command_line line = {
        .command = "attend",
        .summary = "scaled dot-product attention on files",
        .example = "clattn attend --q q.npy --k k.npy --v v.npy --out out.npy --causal bottom-right",
        .groups = groups,
        .group_count = sizeof groups / sizeof groups[0]};
    int status = options_parse(&line, argc, argv);
    if (status < 0 && a.ranks.wanted && (a.several.devices || a.several.deal_given))
        status = tool_wrong("--devices: with --mpi each rank has one device: use --device");
    if (status < 0) status = ranks_open(&a.ranks, &line, argc, argv);
    if (status >= 0) return status;
    status = options_check_outputs(&line);
    if (status < 0) status = load_inputs(&a);
    if (a.several.devices || a.several.deal_given)
        status = status < 0 ? open_several(&a) : status;
    else
        status = open_and_run(&a, status);
    free_attend(&a);
    ranks_close(&a.ranks, status);
    return status;
}
