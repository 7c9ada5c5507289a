// unfit_list.h: the internals of unfit.h, for the other unfit_*.c.
#ifndef CLATTN_PROGRAM_UNFIT_LIST_H
#define CLATTN_PROGRAM_UNFIT_LIST_H
#include "program/unfit.h"

#define UNFIT_LINE sizeof(((clattn_unfit *)0)->line)
#define UNFIT_REASONS 32

typedef struct unfit_mark {
    struct unfit_mark *next;
    enum kernel_id id;
    knobs knobs;
    char *options;     // compiler options besides the knobs
    uint64_t inserted; // hash of the inserted text; 0: none
    unfit_step step;
    cl_int code;
    size_t work_group; // work-group of the failed launch
    uint32_t group;    // new limit of the work-group, if `smaller`
    bool smaller;
    bool kept;         // stored in the cache
    const void *owner; // the thread whose unfinished call recorded it; NULL: the context
    char *log, *text;  // compiler log and failure message, until that call ends
    char line[UNFIT_LINE];
} unfit_mark;

// States of the first call on a driver. FIRST_TAKEN: a plan has avoided kernels because of it.
enum { FIRST_OVER, FIRST_COMES, FIRST_TAKEN };

struct unfit_list {
    os_mutex lock;     // guards marks and reasons, briefly
    unfit_mark *marks; // oldest first
    atomic_int count;
    atomic_int first;                // state of the first call on a driver (unfit_later.c)
    atomic_bool changed;             // plans have changed at least once
    atomic_uint group[KERNEL_COUNT]; // the smallest limit among a kernel's marks; 0: none
    const clattn_host_memory *host;
    int reason_count;
    struct unfit_reason {
        unfit_step step;
        cl_int code;
        char text[120];
    } reasons[UNFIT_REASONS];
};

extern const char *const cla_unfit_steps[UNFIT_STEPS];

uint64_t cla_unfit_hash(const void *bytes, size_t count);
bool cla_unfit_same(const unfit_mark *a, const unfit_mark *b);
// A key for comparison, with the texts of `spec`; and the mark of this owner that equals it.
unfit_mark cla_unfit_key(const program_spec *spec);
unfit_mark *cla_unfit_find(const unfit_list *list, const unfit_mark *key, const void *owner);
// Make a mark of this thread. NULL: no memory, or too many marks.
unfit_mark *cla_unfit_make(const clattn_context *context, const unfit_failure *f);
// Why the first call on a driver avoids a kernel, or NULL.
const char *cla_unfit_first_refusal(unfit_list *list, enum kernel_id id);

// Append a mark. Update `count` and `group` after any other change. The caller holds the lock.
void cla_unfit_add(unfit_list *list, unfit_mark *m);
void cla_unfit_count(unfit_list *list);
// Remove all marks of failures.
void cla_unfit_clear(unfit_list *list);
// Release a whole list of marks.
void cla_unfit_release(const clattn_host_memory *host, unfit_mark *m);
// Store the failed builds in the cache, merged with those of other processes.
void cla_unfit_keep(clattn_context *context);
#endif
