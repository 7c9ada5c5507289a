/* fuzz_tool.c: the program inside a fuzzer. The linker's --wrap replaces the functions that open a
 * device or write a file by these, so that a command runs up to there and leaves nothing behind. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz/fuzz.h"

#include <getopt.h>
#include <unistd.h>

#include "cli/files/file.h"
#include "cli/common/session.h"

extern volatile unsigned fuzz_written; /* keeps the compiler from removing the sum */
/* main of main.c, renamed by -D; it does not close stdout */
int clattn_main(int argc, char **argv);
int __wrap_session_open(session *s, const common_options *o);
int __wrap_session_open_rows(session *s, const common_options *o, const char *rows);
int __wrap_session_devices(session *s, clattn_device **devices, size_t *count);
bool __wrap_file_write_parts(const char *path, const file_part *parts, size_t part_count, reason why);
bool __wrap_file_write_whole(const char *path, const void *bytes, size_t count, reason why);

int fuzz_sessions;
volatile unsigned fuzz_written;

int __wrap_session_open(session *s, const common_options *o) {
    (void)s, (void)o;
    fuzz_sessions++;
    return EXIT_FAILED;
}

int __wrap_session_open_rows(session *s, const common_options *o, const char *rows) {
    (void)rows;
    return __wrap_session_open(s, o);
}

int __wrap_session_devices(session *s, clattn_device **devices, size_t *count) {
    *devices = NULL;
    *count = 0;
    return __wrap_session_open(s, NULL);
}

/* Read everything that would be written, so that sanitizers check it. */
static unsigned sum_of(const unsigned char *bytes, size_t count) {
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++) sum += bytes[i];
    return sum;
}

bool __wrap_file_write_parts(const char *path, const file_part *parts, size_t part_count, reason why) {
    unsigned sum = 0;
    (void)why;
    FUZZ_CHECK(path[0]);
    for (size_t i = 0; i < part_count; i++) sum += sum_of(parts[i].bytes, parts[i].count);
    fuzz_written = sum;
    return true;
}

bool __wrap_file_write_whole(const char *path, const void *bytes, size_t count, reason why) {
    return __wrap_file_write_parts(path, &(file_part){bytes, count}, 1, why);
}

int fuzz_tool(int argc, char **argv) {
    char name[] = "x", *none[] = {name, NULL};
    /* Reset getopt, which still points into an argument of the previous run. */
    optind = 0;
    (void)getopt(1, none, "");
    const int status = clattn_main(argc, argv);
    FUZZ_CHECK(status >= EXIT_DONE && status <= EXIT_WRONG);
    return status;
}
