// pages.h: memory between two pages that nobody may touch: a kernel that goes one element too far on the side where the
// memory ends dies of it, also where it only reads. Leaves out who puts what there.
#ifndef CLATTN_TESTS_PAGES_H
#define CLATTN_TESTS_PAGES_H
#include <stddef.h>

// Memory for a place (verification/device/guarded.h): it ends at the page behind it, and every second time begins at the page before.
void *pages_memory(size_t bytes);
void pages_release(void *memory);
// Where the next one lies: 0 at the end, 1 at the beginning.
void pages_turn(int side);

// What is printed when a page is touched, before the program ends with an error.
void pages_watch(const char *(*what)(void));
#endif
