// text.h: optional texts: NULL is none.
#ifndef CLATTN_CORE_TEXT_H
#define CLATTN_CORE_TEXT_H
#include <stdbool.h>

bool cla_text_equal(const char *a, const char *b);
// A copy, which cla_host_release takes back; NULL for NULL. *ok becomes false without memory.
struct clattn_host_memory;
char *cla_text_copy(const struct clattn_host_memory *host, const char *text, bool *ok);
#endif
