// survey.h: the result of a compiler survey (clattn_device_survey), as stored in the cache folder.
#ifndef CLATTN_PROBE_SURVEY_H
#define CLATTN_PROBE_SURVEY_H
#include "probe/probe.h"

// Read the survey of the context's device. If the cache has a finished one, set `surveyed` and the
// capabilities' `assembly`.
void cla_survey_read(clattn_context *context);
// Store that a survey has started, which invalidates an earlier one, or that it has finished.
void cla_survey_store(const clattn_context *context, bool finished);
// Try each kind of assembly that the device may accept and that is not known yet. The process may
// end, so each trial has a cache mark.
void cla_survey_assembly(clattn_context *context);
// The probe that tries one kind of assembly, CLATTN_ASSEMBLY_...
const probe *cla_survey_trial(unsigned assembly);
#endif
