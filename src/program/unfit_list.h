// unfit_list.h: the record of unfit.h from inside, for unfit.c and unfit_kept.c.
#ifndef CLATTN_PROGRAM_UNFIT_LIST_H
#define CLATTN_PROGRAM_UNFIT_LIST_H
#include "program/unfit.h"

#define UNFIT_LINE sizeof(((clattn_unfit *)0)->line)
#define UNFIT_REASONS 32

typedef struct unfit_mark {
    struct unfit_mark *next;
    enum kernel_id id;
    knobs knobs;
    char *options;     // of the compiler, besides the knobs
    uint64_t inserted; // a hash of the inserted text; 0: none
    unfit_step step;
    cl_int code;
    size_t work_group; // of the launch that failed
    uint32_t group;    // that its groups may have since then, where `smaller` says so
    bool smaller;
    bool kept;         // the cache has it
    const void *owner; // the thread whose call recorded it and has not ended; NULL: the context
    char *log, *text;  // of the compiler, and of the failure, until that call ends
    char line[UNFIT_LINE];
} unfit_mark;

// Of the first call on a driver: a plan took other kernels for its sake.
enum { FIRST_OVER, FIRST_COMES, FIRST_TAKEN };

struct unfit_list {
    os_mutex lock;     // guards marks and reasons, for a moment
    unfit_mark *marks; // in the order in which they came
    atomic_int count;
    atomic_int first;                // of unfit_later.c: the first call on a driver
    atomic_bool changed;             // plans, at least once
    atomic_uint group[KERNEL_COUNT]; // the least of its marks; 0: none
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
// A key to compare with; its texts are the spec's. The mark that it finds, of this owner.
unfit_mark cla_unfit_key(const program_spec *spec);
unfit_mark *cla_unfit_find(const unfit_list *list, const unfit_mark *key, const void *owner);
// A mark of this thread's; NULL: no memory, or there are too many.
unfit_mark *cla_unfit_make(const clattn_context *context, const unfit_failure *f);
// Why the first call on a driver leaves a kernel out, or NULL.
const char *cla_unfit_first_refusal(unfit_list *list, enum kernel_id id);

// The caller holds the lock: a mark more, and after any other change.
void cla_unfit_add(unfit_list *list, unfit_mark *m);
void cla_unfit_count(unfit_list *list);
// Without any failure from now on.
void cla_unfit_clear(unfit_list *list);
// All of a list of them.
void cla_unfit_release(const clattn_host_memory *host, unfit_mark *m);
// Write the failed builds into the cache, with those that other processes left there.
void cla_unfit_keep(clattn_context *context);
#endif
