// pages.c: see pages.h.
#define _GNU_SOURCE
#include "support/pages.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 64 };

static struct {
    void *memory;
    unsigned char *from;
    size_t bytes; // mapped bytes, including both protected pages
} maps[MOST];
static int next_side;
static const char *(*watched)(void);

void pages_turn(int side) {
    next_side = side;
}

void *pages_memory(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    int n = 0;
    while (n < MOST && maps[n].memory != NULL) n++;
    if (n == MOST || bytes == 0) return NULL;
    unsigned char *from =
        mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (from == MAP_FAILED) return NULL;
    if (mprotect(from + page, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(from, inner + 2 * page);
        return NULL;
    }
    memset(from + page, 0xa5, inner);
    maps[n].from = from;
    maps[n].bytes = inner + 2 * page;
    maps[n].memory = from + page + (next_side ? 0 : inner - bytes);
    next_side = !next_side;
    return maps[n].memory;
}

void pages_release(void *memory) {
    for (int n = 0; n < MOST; n++)
        if (maps[n].memory == memory) {
            munmap(maps[n].from, maps[n].bytes);
            maps[n].memory = NULL;
        }
}

static void touched(int signal_number) {
    static const char text[] = "a kernel left its memory: ";
    const char *what = watched();
    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 || write(STDERR_FILENO, what, strlen(what)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        _exit(4);
    _exit(3);
}

void pages_watch(const char *(*what)(void)) {
    watched = what;
    struct sigaction action = {.sa_handler = touched};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}
