// limits_levels.h: reading from each cache of a device, by all its cores at once. A part of limits.h.
#ifndef CLATTN_EVIDENCE_LIMITS_LIMITS_LEVELS_H
#define CLATTN_EVIDENCE_LIMITS_LIMITS_LEVELS_H

#include "evidence/limits/limits.h"

// Raises the levels of *found to what this measurement finds; each one's runs take max_ms at most; 0: as long as is good.
void limits_levels(struct place *place, double max_ms, struct limits *found);

#endif
