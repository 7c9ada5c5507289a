// pages.h: memory between two inaccessible pages. A kernel that reads or writes one element past
// the end that touches a page ends the process. The contents are the caller's.
#ifndef CLATTN_TESTS_PAGES_H
#define CLATTN_TESTS_PAGES_H
#include <stddef.h>

// Memory for a place (verification/device/guarded.h). It ends at the page behind it; every second
// allocation begins at the page before it instead.
void *pages_memory(size_t bytes);
void pages_release(void *memory);
// Side of the next allocation: 0 touches the page at the end, 1 the page at the beginning.
void pages_turn(int side);

// `what` returns the text that is printed when a page is touched, before the program ends with an
// error.
void pages_watch(const char *(*what)(void));
#endif
