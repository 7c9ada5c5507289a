// unfit_call.c: see unfit_call.h.
#include "program/unfit_call.h"

// This thread's nested calls; true if the innermost one cannot be planned again; its wait for
// builds.
static _Thread_local int calls;
static _Thread_local bool fixed;
static _Thread_local uint64_t waited_ns;

void cla_unfit_begin(void) {
    if (calls++ == 0) fixed = false, waited_ns = 0;
}

void cla_unfit_end(void) {
    calls--;
}

void cla_unfit_fix(void) {
    fixed = true;
}

bool cla_unfit_in_call(void) {
    return calls > 0;
}

bool cla_unfit_can_plan_again(void) {
    return calls > 0 && !fixed;
}

uint64_t *cla_unfit_waited_ns(void) {
    return &waited_ns;
}

// Calls of one thread on one context come one after another, so that its address names a call.
const void *cla_unfit_thread(void) {
    static _Thread_local char place;
    return &place;
}
