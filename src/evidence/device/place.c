// place.c: see place.h.
#include "evidence/device/place.h"

#include <stdio.h>

void place_broken(struct place *place, const char *what, cl_int code) {
    if (place->broken) place->broken(what, code);
    if (place->error[0] == '\0')
        snprintf(place->error, sizeof place->error, "%s: OpenCL error %d", what, (int)code);
}

const char *place_message(const struct place *place, clattn_status status, char text[256]) {
    text[0] = '\0';
    clattn_context_last_error(place->context, text, 256);
    if (text[0] == '\0') snprintf(text, 256, "%s", clattn_status_text(status));
    return text;
}
