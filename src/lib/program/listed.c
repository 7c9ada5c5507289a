// listed.c: the programs of a context by their specs.
#include "program/program.h"

#include "base/host.h"

static bool same_spec(const program_spec *a, const program_spec *b) {
    return a->id == b->id && a->large == b->large && a->placed == b->placed &&
           cla_knobs_equal(&a->knobs, &b->knobs) && cla_text_equal(a->options, b->options) &&
           cla_text_equal(a->inserted, b->inserted);
}

program *cla_program_find(const clattn_context *c, const program_spec *spec) {
    program *p = c->programs;
    while (p && !same_spec(&p->spec, spec)) p = p->next;
    return p;
}
