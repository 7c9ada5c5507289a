// text.h: optional texts: NULL is none; and numbers in texts.
#ifndef CLATTN_BASE_TEXT_H
#define CLATTN_BASE_TEXT_H
#include <stdbool.h>

bool cla_text_equal(const char *a, const char *b);
// A copy, which cla_host_release takes back; NULL for NULL. *ok becomes false without memory.
struct clattn_host_memory;
char *cla_text_copy(const struct clattn_host_memory *host, const char *text, bool *ok);

// Digits alone, past which *text moves; false, and it stays, where there is none or they are beyond an int. Not strtol, which takes
// spaces and signs and whose long ends at INT_MAX on some systems: a number beyond that would read as it.
bool cla_text_count(const char **text, int *count);
#endif
