// text.h: optional texts: NULL is none.
#ifndef CLATTN_CORE_TEXT_H
#define CLATTN_CORE_TEXT_H
#include <stdbool.h>

bool cla_text_equal(const char *a, const char *b);
// A copy on the heap; NULL for NULL. *ok becomes false without memory.
char *cla_text_copy(const char *text, bool *ok);
#endif
