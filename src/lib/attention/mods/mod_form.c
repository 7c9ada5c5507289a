// mod_form.c: see mod_form.h.
#include "attention/mods/mod_form.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/host.h"

void cla_mod_form_put(mod_form *o, const char *format, ...) {
    for (int turn = 0; o->at && turn < 2; turn++) {
        va_list list;
        va_start(list, format);
        const int n = vsnprintf(o->at + o->used, o->room - o->used, format, list);
        va_end(list);
        if (n >= 0 && (size_t)n < o->room - o->used) {
            o->used += (size_t)n;
            return;
        }
        const size_t room = o->room;
        o->room = 2 * room + (n > 0 ? (size_t)n : 0);
        char *more = n < 0 || turn ? NULL : cla_host_grow(o->host, o->at, room, o->room);
        if (!more) cla_host_release(o->host, o->at);
        o->at = more;
    }
}

int cla_mod_form_nested(const mod_form *form) {
    int depth = 0, most = 0;
    for (const char *at = form->at; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        most = depth > most ? depth : most;
    }
    return most;
}
