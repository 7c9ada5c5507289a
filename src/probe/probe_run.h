// probe_run.h: probes are run and timed. Used by probe.c.
#ifndef CLATTN_PROBE_PROBE_RUN_H
#define CLATTN_PROBE_PROBE_RUN_H
#include "probe/probe.h"
#include "probe/rates.h"

enum { PROBE_OPTIONS = 256 };

// The compiler's options of a probe; false where they do not fit.
bool cla_probe_options(const clattn_context *context, const probe *p, char text[PROBE_OPTIONS]);

// Run some now, whether they apply or not, and time those that are right in turns. *answered: that is the
// device's answer, right or wrong or refused by its compiler; false where something else failed, which may work the next time.
void cla_probe_run_set(const clattn_context *context, const probe *const probes[], int count,
                       probe_rate rates[], bool answered[]);
#endif
