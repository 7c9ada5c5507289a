// mod_form.h: a growing text buffer.
#ifndef CLATTN_ATTENTION_MODS_MOD_FORM_H
#define CLATTN_ATTENTION_MODS_MOD_FORM_H
#include <stddef.h>

struct clattn_host_memory;

typedef struct mod_form {
    const struct clattn_host_memory *host;
    char *at; // NULL: memory ran out
    size_t used, room;
} mod_form;

#if defined(__GNUC__) && !defined(__MINGW32__)
__attribute__((__format__(__printf__, 2, 3)))
#endif
void cla_mod_form_put(mod_form *form, const char *format, ...);
// The largest depth of nested brackets.
int cla_mod_form_nested(const mod_form *form);
#endif
