// survey.h: what a survey found of a driver's compiler (clattn_device_survey), as the cache folder keeps it.
#ifndef CLATTN_PROBE_SURVEY_H
#define CLATTN_PROBE_SURVEY_H
#include "probe/probe.h"

// Read the survey of the context's device, if the cache has a finished one: `surveyed`, and `assembly` of the capabilities.
void cla_survey_read(clattn_context *context);
// Store that a survey began, which ends the validity of an earlier one, or that it is finished.
void cla_survey_store(const clattn_context *context, bool finished);
// Try the assembly that the device may take and that is not known, each under a mark: the process may end.
void cla_survey_assembly(clattn_context *context);
// The probe that tries one of CLATTN_ASSEMBLY_...
const probe *cla_survey_trial(unsigned assembly);
#endif
