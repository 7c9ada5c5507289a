// place.c: see place.h.
#include "tool/cli/place.h"

struct place session_place(const session *s) {
    return (struct place){.context = s->context,
                          .opencl = clattn_context_opencl(s->context),
                          .device = s->device.device,
                          .queue = s->queue,
                          .guard = PLACE_GUARD};
}
