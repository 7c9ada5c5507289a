// plans.c: prints the kernels and build options that the library would use on absent devices, for
// the compilers of those devices (check_offline.sh). One line each, separated by tabs:
//
//   device  problem  kernel  options  work-items of a group (0: any)
//   bytes of local memory (0: not planned)  local memory of the device  family
//
// The same kernel with the same options is printed once for each device. The plans of a device
// whose probes passed come first.
//
//   plans [DEVICE]      all devices, or this one
#include "plan/absent_devices.h"
#include "args/args.h"
#include "plan/backward_plan.h"
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINES 4096
#define LINE 1400

static tuned_rows shipped, matrix;
// Tuned rows of a caller that request wgmma, each in its own table.
static const char *const wgmma_texts[] = {"flash_fragments : MATRIX_ENGINE=4\n",
                                          "flash_fragments : MATRIX_ENGINE=4 GROUP_ROWS=8\n"};
#define WGMMA_TEXTS (sizeof wgmma_texts / sizeof wgmma_texts[0])
static tuned_rows wgmma[WGMMA_TEXTS];
static char told[MOST_LINES][LINE];
static int told_count;

// Print a plan, unless a line with the same device and the same kernel was printed.
static void tell(const absent_device *device, const char *asked, const program_spec *spec, int group,
                 size_t bytes, const char *by) {
    char defines[900], line[LINE];
    if (!cla_knobs_print(&spec->knobs, defines, sizeof defines)) exit(EXIT_FAILURE);
    snprintf(line, sizeof line, "%s\t%s %s\t%d\t%zu\t%llu\t%s", clattn_kernel_sources[spec->id].name,
             spec->options ? spec->options : PROGRAM_OPTIONS, defines, group, bytes,
             (unsigned long long)device->is.local_memory_bytes, by);
    for (int i = 0; i < told_count; i++)
        if (!strcmp(told[i], line)) return;
    if (told_count == MOST_LINES) exit(EXIT_FAILURE);
    strcpy(told[told_count++], line);
    printf("%s\t%s\t%s\n", device->word, asked, line);
}

// The kernels around the main kernel. Their knobs are those of attention/run/flash.c and
// attention/run/unfused.c.
static void tell_combine(const absent_device *d, const absent_problem *p) {
    const program_spec spec = {
        .id = KERNEL_COMBINE,
        .knobs = {.type_out = (int)p->is.type_out, .combine_columns = d->is.is_cpu ? 16 : 0}};
    tell(d, p->word, &spec, 0, 0, "splits");
}

static void tell_unfused(const absent_device *d, const absent_problem *p, const variant *v) {
    const problem *m = &p->is;
    const program_spec all[] = {
        {.id = KERNEL_SCORES,
         .knobs = {.type_q = (int)m->type_q,
                   .type_kv = (int)m->type_kv,
                   .type_bias = (int)m->type_bias,
                   .score_ops = m->score_ops}},
        {.id = KERNEL_SOFTMAX, .knobs = {.work_group = v->work_group}},
        {.id = KERNEL_SOFTMAX, .knobs = {.work_group = v->work_group, .type_weights = (int)m->type_weights}},
        {.id = KERNEL_VALUES,
         .knobs = {.type_kv = (int)m->type_kv,
                   .type_out = (int)m->type_out,
                   .score_ops = m->score_ops & ARGS_MASK}}};
    for (int i = 0; i < 4; i++)
        tell(d, p->word, &all[i], all[i].id == KERNEL_SOFTMAX ? v->work_group : 0, 0, v->family->name);
}

static void tell_attention(const absent_device *d, const absent_problem *p, const tuned_rows *own,
                           unsigned proven) {
    const plan_input in = {.device = &d->is,
                           .own = own,
                           .shipped = &shipped,
                           .probes = {.ran = proven,
                                      .proven = proven,
                                      .sure = proven,
                                      // integers are faster than floats
                                      .rate = {[PROBE_DOT_I8_OWN] = 1.0f}}};
    variant v;
    if (cla_variant_choose(&in, &p->is, &v) != CLATTN_OK) return;
    if (own && v.knobs.matrix_engine != MATRIX_ENGINE_WGMMA) return;
    if (v.family->path == CLATTN_KERNEL_UNFUSED) {
        tell_unfused(d, p, &v);
        return;
    }
    const program_spec spec = {
        .id = v.family->id, .knobs = v.knobs, .options = v.options ? v.options : v.family->options};
    tell(d, p->word, &spec, v.work_group, v.local_bytes, v.family->name);
    if (v.splits > 1) tell_combine(d, p);
}

// Gradients, if the problem has any: both launches of the main kernel. Results have the type of
// forward's output.
static void tell_gradients(const absent_device *d, const absent_problem *p) {
    const plan_input in = {.device = &d->is, .shipped = &shipped};
    const problem *m = &p->is;
    backward_variant v;
    if (m->past || m->paged || m->splits || m->wants_weights || m->wants_scores || m->n_q == 1 ||
        CLATTN_TYPE_IS_SCALED(m->type_kv) || cla_backward_choose(&in, m, &v))
        return;
    for (int of_keys = 0; of_keys < (v.one_pass ? 1 : 2); of_keys++) {
        program_spec spec = {.id = v.family->id, .knobs = v.knobs};
        spec.knobs.type_gradient = (int)m->type_out, spec.knobs.gradient_of_kv = of_keys;
        tell(d, p->word, &spec, v.work_group, v.local_bytes, v.family->name);
    }
}

// Tuned rows may request matrix tiles on any device, emulated.
static void tell_matrix(const absent_device *d, const absent_problem *p) {
    const plan_input in = {.device = &d->is, .own = &matrix, .shipped = &shipped};
    variant v;
    if (p->is.head_dim > 128 || CLATTN_TYPE_IS_SCALED(p->is.type_kv))
        return; // such kernels compile slowly, and add no new code
    if (cla_variant_choose(&in, &p->is, &v) != CLATTN_OK || v.family->id != KERNEL_FLASH_MATRIX) return;
    const program_spec spec = {.id = v.family->id, .knobs = v.knobs, .options = v.family->options},
                       pack = {.id = KERNEL_MATRIX_PACK,
                               .knobs = {.type_kv = (int)p->is.type_kv, .head_dim_v = p->is.head_dim_v}};
    tell(d, "matrix", &spec, v.work_group, v.local_bytes, v.family->name);
    tell(d, "matrix", &pack, 1, 0, v.family->name);
}

static const char *options_of(enum kernel_id id) {
    for (int i = 0; i < cla_family_count; i++)
        if (cla_families[i]->id == id) return cla_families[i]->options;
    return NULL;
}

// Plans without CLBlast, so that every projection has a kernel.
static void tell_projection(const absent_device *d, const absent_projection *p, unsigned proven) {
    const plan_input in = {
        .device = &d->is, .shipped = &shipped, .probes = {.ran = proven, .proven = proven, .sure = proven}};
    linear_choice c;
    if (!cla_variant_choose_linear(&in, &p->is, true, &c)) return;
    const program_spec spec = {
        .id = c.id, .knobs = c.knobs, .options = c.options ? c.options : options_of(c.id)};
    tell(d, p->word, &spec, c.work_group, c.id == KERNEL_LINEAR_FRAGMENTS ? c.local_bytes : 0, "projection");
}

// Kernels without a plan, which depend only on types.
static void tell_rest(const absent_device *d) {
    static const clattn_type types[] = {CLATTN_TYPE_F32, CLATTN_TYPE_F16, CLATTN_TYPE_BF16};
    for (int i = 0; i < 3; i++) {
        const int type = (int)types[i];
        const program_spec
            rope = {.id = KERNEL_ROPE, .knobs = {.type_q = type, .type_out = type}},
            append = {.id = KERNEL_APPEND,
                      .knobs = {.type_q = type, .type_kv = CLATTN_TYPE_I8, .rope = 1, .work_group = 32}},
            shift = {.id = KERNEL_SHIFT,
                     .knobs = {.type_kv = i == 0   ? CLATTN_TYPE_I8
                                          : i == 1 ? CLATTN_TYPE_Q8_0
                                                   : type,
                               .rope = 1,
                               .work_group = 32}},
            hadamard = {.id = KERNEL_HADAMARD, .knobs = {.type_q = type, .type_out = type, .work_group = 32}},
            merge = {.id = KERNEL_MERGE, .knobs = {.type_out = type}},
            from = {.id = KERNEL_CONVERT, .knobs = {.type_q = type}},
            to = {.id = KERNEL_CONVERT, .knobs = {.type_out = type, .type_bias = type}};
        static const enum kernel_id rows[] = {KERNEL_ROW_NORM, KERNEL_ACTIVATE, KERNEL_EMBED, KERNEL_ARGMAX,
                                              KERNEL_SAMPLE};
        tell(d, "rope", &rope, 0, 0, "rope");
        tell(d, "append", &append, 32, 0, "append");
        tell(d, "shift", &shift, 32, sizeof(float) * SHIFT_MOST_BLOCK_WIDTH, "shift");
        tell(d, "hadamard", &hadamard, 32, sizeof(float) * HADAMARD_MOST_BLOCK, "hadamard");
        tell(d, "merge", &merge, 0, 0, "merge");
        tell(d, "convert", &from, 0, 0, "convert");
        tell(d, "convert", &to, 0, 0, "convert");
        for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
            const program_spec spec = {
                .id = rows[n],
                .knobs = {.type_q = type, .type_kv = type, .type_out = type, .lanes = 4, .work_group = 256}};
            tell(d, "block", &spec, 256, 0, "block");
        }
    }
}

int main(int argc, char **argv) {
    char why[256];
    int devices = 0;
    if (argc > 2 || !cla_tuned_parse(clattn_tuned_rows_text, &shipped, why, sizeof why) ||
        !cla_tuned_parse("flash_matrix :\n", &matrix, why, sizeof why))
        return EXIT_FAILURE;
    for (size_t r = 0; r < WGMMA_TEXTS; r++)
        if (!cla_tuned_parse(wgmma_texts[r], &wgmma[r], why, sizeof why)) return EXIT_FAILURE;
    for (int d = 0; d < absent_device_count; d++) {
        const absent_device *device = &absent_devices[d];
        if (argc == 2 && strcmp(argv[1], device->word)) continue;
        devices++;
        told_count = 0;
        for (int i = 0; i < absent_problem_count; i++)
            tell_attention(device, &absent_problems[i], NULL, absent_device_proves(device));
        for (size_t r = 0; r < WGMMA_TEXTS; r++)
            for (int i = 0; i < absent_problem_count; i++)
                tell_attention(device, &absent_problems[i], &wgmma[r], absent_device_proves(device));
        for (int i = 0; i < absent_problem_count; i++) tell_attention(device, &absent_problems[i], NULL, 0);
        for (int i = 0; i < absent_problem_count; i++) tell_gradients(device, &absent_problems[i]);
        for (int i = 0; i < absent_projection_count; i++)
            tell_projection(device, &absent_projections[i], absent_device_proves(device));
        for (int i = 0; i < absent_problem_count; i++) tell_matrix(device, &absent_problems[i]);
        tell_rest(device);
    }
    cla_tuned_free(&shipped);
    cla_tuned_free(&matrix);
    for (size_t r = 0; r < WGMMA_TEXTS; r++) cla_tuned_free(&wgmma[r]);
    if (devices) return EXIT_SUCCESS;
    fprintf(stderr, "no such device: %s\n", argv[1]);
    return EXIT_FAILURE;
}
