// fused_launches.cl: runs several consecutive launches as one (clattn_recording_fuse,
// src/lib/launch/fuse.c). Between two launches a driver stops all cores and wakes them again. This
// costs several microseconds, where a launch itself may last ten. For CPU devices only.
//
// There are as many work-groups as cores, each of one work-item. A part is one work-group of an
// original launch. The groups get parts from a shared counter (parts.clh). They start a launch's
// parts only when all parts of the previous launch are done. The last group resets the counters.
//
// Each launch's kernel is compiled separately with its own knobs, after this file with PART_OF_STEP
// defined. It becomes a function that reads its group's index from step_place. It needs no barrier
// and no local memory, since it is alone in its group. The host appends a function that passes its
// arguments, and links all of them with this file. The pragmas are clang's: with another compiler
// the build fails, and the launches remain separate.
#include "args/step.h"

typedef struct step_place {
    // The part's index in its launch's grid, and the grid's size.
    int at[3], size[3];
} step_place;

#define STEP_PARAMETERS                                                                                      \
    const step_place *place_in_step, __global void *const *step_buffers, __global const uchar *step_values,  \
        __global const int *step_words

#ifdef PART_OF_STEP
#pragma clang attribute push(__attribute__((internal_linkage)), apply_to = function)
#pragma clang attribute push(__attribute__((internal_linkage)), apply_to = variable(is_global))
#define __kernel
#define reqd_work_group_size(x, y, z) unused
#define __local __private
#define barrier(flags) ((void)0)
#define get_group_id(d) ((size_t)place_in_step->at[d])
#define get_num_groups(d) ((size_t)place_in_step->size[d])
#define get_global_id(d) get_group_id(d)
#define get_global_size(d) get_num_groups(d)
#define get_global_offset(d) ((size_t)0)
#define get_local_id(d) ((size_t)0)
#define get_local_size(d) ((size_t)1)
#else
#ifndef STEP_KERNELS // the host defines it: KERNEL(n) for each kernel's number
#define STEP_KERNELS(KERNEL)
#endif

#define LOOKS_MOST 32768 // polls without new work before a group leaves: about 1 ms
#include "base/parts.clh"

#define TEN_BUFFERS(tens, DO)                                                                                \
    DO(tens##0), DO(tens##1), DO(tens##2), DO(tens##3), DO(tens##4), DO(tens##5), DO(tens##6), DO(tens##7),  \
        DO(tens##8), DO(tens##9)
#define EACH_BUFFER(DO)                                                                                      \
    TEN_BUFFERS(buffer0, DO), TEN_BUFFERS(buffer1, DO), TEN_BUFFERS(buffer2, DO), TEN_BUFFERS(buffer3, DO),  \
        TEN_BUFFERS(buffer4, DO), TEN_BUFFERS(buffer5, DO), TEN_BUFFERS(buffer6, DO),                        \
        TEN_BUFFERS(buffer7, DO), TEN_BUFFERS(buffer8, DO), TEN_BUFFERS(buffer9, DO),                        \
        TEN_BUFFERS(buffer10, DO), TEN_BUFFERS(buffer11, DO)
#define DECLARE_BUFFER(name) __global uchar *name
#define NAME_BUFFER(name) name

#define DECLARE_KERNEL(n) void step_kernel_##n(STEP_PARAMETERS);
STEP_KERNELS(DECLARE_KERNEL)

void run_part(int which, STEP_PARAMETERS) {
    switch (which) {
#define CASE_OF_KERNEL(n)                                                                                    \
    case n:                                                                                                  \
        step_kernel_##n(place_in_step, step_buffers, step_values, step_words);                               \
        return;
        STEP_KERNELS(CASE_OF_KERNEL)
    default:
        return;
    }
}

void run_parts(__global const step_launch *launch, int first, int count, __global void *const *buffers,
               __global const uchar *values) {
    __global const int *words = (__global const int *)values + launch->arguments;
    for (int n = first; n < first + count; n++) {
        const int x = launch->size[0], y = launch->size[1];
        const step_place place = {{n % x, n / x % y, n / x / y}, {x, y, launch->size[2]}};
        run_part(launch->which, &place, buffers, values, words);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fused_launches(EACH_BUFFER(DECLARE_BUFFER),
                                                                            __global step_shared *shared) {
    __global void *const buffers[STEP_BUFFERS + 1] = {EACH_BUFFER(NAME_BUFFER), 0};
    volatile __global int *taken = &shared->taken, *done = &shared->done, *left = &shared->left;
    __global const step_launch *launch = (__global const step_launch *)(shared + 1), *const end =
                                                                                         launch +
                                                                                         shared->launches;
    int begin = 0; // parts of the earlier launches
    for (int looks = 0; looks < LOOKS_MOST;) {
        const int ready = *done;
        for (; launch < end && launch->end <= ready; launch++) begin = launch->end;
        int count;
        // A fetch has half of the remaining parts, divided by the number of groups, so that all
        // groups finish together.
        const int first =
            launch < end ? take_parts(taken, launch->end, 2 * (int)get_num_groups(0), &count) : -1;
        if (first < 0) {
            if (launch >= end - 1) break; // no part is left
            LOOK_LATER;
            looks++;
            continue;
        }
        // Counters of an earlier run that did not end do not count this launch's parts.
        if (first < begin) break;
        looks = 0;
        MEMORY_FENCE;
        run_parts(launch, first - begin, count, buffers, (__global const uchar *)shared);
        MEMORY_FENCE;
        atomic_add(done, count);
    }
    // The last group resets the counters to 0.
    if (atomic_inc(left) != (int)get_num_groups(0) - 1) return;
    *taken = *done = *left = 0;
}
#endif
