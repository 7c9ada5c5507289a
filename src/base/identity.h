// identity.h: which device, on which machine, through which driver and library an answer of the cache folder is about. The
// folder may be shared: between machines, and with what was installed there before.
#ifndef CLATTN_BASE_IDENTITY_H
#define CLATTN_BASE_IDENTITY_H
#include "clattn/clattn.h"
#include "base/sha256.h"

// Part of a key. cpu: the model (cla_os_cpu_model) of a CPU device, "" of others: PoCL 3.1 names a Zen 4 and a Zen 5 alike. Of the
// width that the device reports plans are made. library: the version of clattn.
void cla_identity_add(sha256_state *h, const clattn_capabilities *device, const char *cpu,
                      const char *library);
#endif
