// unfit_list.c: see unfit_list.h.
#include "program/unfit_list.h"

#include <string.h>

#include "base/host.h"

const char *const cla_unfit_steps[UNFIT_STEPS] = {[UNFIT_SOURCE] = "clCreateProgramWithSource",
                                                  [UNFIT_BUILD] = "clBuildProgram",
                                                  [UNFIT_CREATE] = "clCreateKernel",
                                                  [UNFIT_INFO] = "clGetKernelWorkGroupInfo",
                                                  [UNFIT_OBJECT] = "clCreateKernel",
                                                  [UNFIT_ARGUMENT] = "clSetKernelArg",
                                                  [UNFIT_LAUNCH] = "clEnqueueNDRangeKernel",
                                                  [UNFIT_LATE] = "clBuildProgram"};

uint64_t cla_unfit_hash(const void *bytes, size_t count) {
    uint8_t digest[SHA256_BYTES];
    uint64_t hash = 0;
    cla_sha256_of(bytes, count, digest);
    for (int i = 0; i < 8; i++) hash = hash << 8 | digest[i];
    return hash;
}

bool cla_unfit_same(const unfit_mark *a, const unfit_mark *b) {
    return a->id == b->id && a->inserted == b->inserted && cla_knobs_equal(&a->knobs, &b->knobs) &&
           !strcmp(a->options, b->options);
}

void cla_unfit_count(unfit_list *list) {
    int count = 0;
    uint32_t group[KERNEL_COUNT] = {0};
    for (const unfit_mark *m = list->marks; m; m = m->next) {
        count++;
        if (m->smaller && (!group[m->id] || m->group < group[m->id])) group[m->id] = m->group;
    }
    for (int id = 0; id < KERNEL_COUNT; id++) atomic_store(&list->group[id], group[id]);
    atomic_store(&list->count, count);
    if (count) atomic_store(&list->changed, true);
}

void cla_unfit_add(unfit_list *list, unfit_mark *m) {
    unfit_mark **at = &list->marks;
    while (*at) at = &(*at)->next;
    m->next = NULL;
    *at = m;
    cla_unfit_count(list);
}

void cla_unfit_clear(unfit_list *list) {
    cla_os_mutex_lock(&list->lock);
    unfit_mark *gone = NULL;
    for (unfit_mark **at = &list->marks; *at;) {
        unfit_mark *m = *at;
        if (m->step == UNFIT_LATE) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        m->next = gone, gone = m;
    }
    cla_unfit_count(list);
    cla_os_mutex_unlock(&list->lock);
    cla_unfit_release(list->host, gone);
}

void cla_unfit_release(const clattn_host_memory *host, unfit_mark *m) {
    while (m) {
        unfit_mark *next = m->next;
        cla_host_release(host, m->options);
        cla_host_release(host, m->log);
        cla_host_release(host, m->text);
        cla_host_release(host, m);
        m = next;
    }
}

// The plainest kernel of each kind has the least text and supports every call of that kind.
const char *cla_unfit_first_refusal(unfit_list *list, enum kernel_id id) {
    const bool plain = id == KERNEL_FLASH || id == KERNEL_SCORES || id == KERNEL_LINEAR_ROWS;
    if (plain || !atomic_load_explicit(&list->first, memory_order_relaxed)) return NULL;
    // Only a call uses up the first call, not a query of a plan.
    if (cla_unfit_can_plan_again()) atomic_store(&list->first, FIRST_TAKEN);
    atomic_store(&list->changed, true);
    return "comes with the second call: this driver is new, and the first call compiles the least text";
}
