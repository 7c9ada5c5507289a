// linked.c: builds a program of several kernels (fused_launches.cl), each with its own knobs, by
// OpenCL 1.2's separate compilation and linking.
#include "program/program.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"

enum { TEXTS = 4 };

typedef struct compiled {
    cl_program *programs;
    int count;
    cl_int code;
} compiled;

// Compile the concatenated texts. Empty texts are left out, because OpenCL reads a length of 0 as
// "NUL-terminated".
static void compile_texts(clattn_context *c, const char *const texts[TEXTS], const size_t sizes[TEXTS],
                          const char *options, compiled *to) {
    const char *given[TEXTS];
    size_t bytes[TEXTS];
    cl_uint count = 0;
    for (int i = 0; i < TEXTS; i++)
        if (sizes[i] > 0) given[count] = texts[i], bytes[count++] = sizes[i];
    cl_program p = clCreateProgramWithSource(c->opencl, count, given, bytes, &to->code);
    if (!p) return;
    to->programs[to->count++] = p;
    to->code = clCompileProgram(p, 1, &c->device, options, 0, NULL, NULL, NULL, NULL);
}

static void compile_linked(clattn_context *c, const linked_kernel *kernel, const struct kernel_source *step,
                           compiled *to) {
    static const char part[] = " -DPART_OF_STEP";
    char options[PROGRAM_MOST_OPTIONS + sizeof part], place[256];
    const struct kernel_source *source = &clattn_kernel_sources[kernel->of->spec.id];
    // The macro adds the kernel's place in the step as its first parameter.
    snprintf(place, sizeof place, "\n#define %s(...) %s(const step_place *place_in_step, __VA_ARGS__)\n",
             source->name, source->name);
    const char *const texts[TEXTS] = {(const char *)step->text, place, (const char *)source->text,
                                      kernel->call};
    const size_t sizes[TEXTS] = {step->bytes, strlen(place), source->bytes, strlen(kernel->call)};
    snprintf(options, sizeof options, "%s%s", kernel->of->options, part);
    compile_texts(c, texts, sizes, options, to);
}

cl_int cla_program_link(clattn_context *c, const program_spec *spec, const char *options, cl_program *built) {
    const struct kernel_source *step = &clattn_kernel_sources[spec->id];
    const char *const texts[TEXTS] = {spec->inserted, (const char *)step->text, "", ""};
    const size_t sizes[TEXTS] = {strlen(spec->inserted), step->bytes, 0, 0};
    compiled all = {.programs =
                        cla_host_take_zeroed(&c->host, (size_t)spec->linked_count + 1, sizeof(cl_program))};
    *built = NULL;
    if (!all.programs) return CL_OUT_OF_HOST_MEMORY;
    compile_texts(c, texts, sizes, options, &all);
    for (int i = 0; i < spec->linked_count && all.code == CL_SUCCESS; i++)
        compile_linked(c, &spec->linked[i], step, &all);
    if (all.code == CL_SUCCESS)
        *built = clLinkProgram(c->opencl, 1, &c->device, NULL, (cl_uint)all.count, all.programs, NULL, NULL,
                               &all.code);
    else if (all.count > 0)
        *built = all.programs[--all.count]; // its log describes the failure
    while (all.count > 0) clReleaseProgram(all.programs[--all.count]);
    cla_host_release(&c->host, all.programs);
    return all.code;
}
