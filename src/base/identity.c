// identity.c: see identity.h.
#include "base/identity.h"

#include <string.h>

void cla_identity_add(sha256_state *h, const clattn_capabilities *device, const char *cpu,
                      const char *library) {
    const char *const parts[] = {
        device->name, device->vendor, device->driver, device->version, device->platform, cpu, library};
    const uint32_t width = device->float_vector_width;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cla_sha256_add(h, parts[i], strlen(parts[i]) + 1);
    cla_sha256_add(h, &width, sizeof width);
}
