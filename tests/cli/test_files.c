/* Whole-file writes of the program: a file is written completely or not at all, whatever exists at
 * its path and whatever ends the program. Pure C, so Check may fork. */
#define _GNU_SOURCE
#include "support/run_suite.h"
#include "support/temporary_folder.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/files/file.h"

static reason error;

/* A failed write leaves the old file unchanged, and no other file. */
START_TEST(a_failed_write_leaves_the_old_file) {
    static unsigned char large[100000];
    unsigned char *bytes = NULL;
    size_t size = 0;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("old"));
    entries(true);
    ck_assert(file_write_whole(path, "old", 3, error));
    ck_assert_int_eq(chmod(path, 0640), 0);
    struct rlimit limit = {50000, 50000};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!file_write_whole(path, large, sizeof large, error) && strstr(error, "File too large"));
    ck_assert_int_eq(entries(false), 1);
    ck_assert(file_read_whole(path, &bytes, &size, error) && size == 3);
    free(bytes);
    struct stat status;
    ck_assert(file_write_whole(path, "new", 3, error));
    ck_assert(stat(path, &status) == 0 && (status.st_mode & 07777) == 0640);
    ck_assert_int_eq(symlink("old", in_folder("link")), 0);
    ck_assert(file_write_whole(in_folder("link"), "link", 4, error));
    ck_assert(lstat(in_folder("link"), &status) == 0 && S_ISLNK(status.st_mode));
    ck_assert(stat(path, &status) == 0 && status.st_size == 4);
    ck_assert(!file_write_whole(folder, "x", 1, error) && strstr(error, "is a folder"));
    ck_assert(!file_write_whole(in_folder("no/x"), "x", 1, error));
    ck_assert(!file_read_whole(folder, &bytes, &size, error) && strstr(error, "not a regular file"));
    ck_assert(file_write_whole("/dev/null", "x", 1, error));
    ck_assert(stat("/dev/null", &status) == 0 && S_ISCHR(status.st_mode));
    ck_assert_int_eq(entries(false), 2);
}
END_TEST

/* The target of a link is written, also if it does not exist yet. A link to itself or into a
 * missing folder is refused. */
START_TEST(links_are_followed) {
    char link_path[512], error_text[512];
    struct stat status;
    entries(true);
    snprintf(link_path, sizeof link_path, "%s", in_folder("link"));
    ck_assert_int_eq(symlink("second", link_path), 0);
    ck_assert_int_eq(symlink("later", in_folder("second")), 0);
    ck_assert(file_can_write(link_path, error));
    ck_assert(file_write_whole(link_path, "text", 4, error));
    ck_assert(lstat(link_path, &status) == 0 && S_ISLNK(status.st_mode));
    ck_assert(lstat(in_folder("later"), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 4);
    ck_assert_int_eq(entries(false), 3);
    ck_assert_int_eq(symlink("no/where", in_folder("astray")), 0);
    ck_assert_int_eq(symlink("self", in_folder("self")), 0);
    ck_assert(!file_write_whole(in_folder("astray"), "x", 1, error_text));
    ck_assert_msg(strstr(error_text, "No such file") != NULL, "%s", error_text);
    ck_assert(!file_write_whole(in_folder("self"), "x", 1, error_text));
    ck_assert_msg(strstr(error_text, "symbolic links") != NULL, "%s", error_text);
    ck_assert_int_eq(entries(true), 5);
}
END_TEST

/* The new contents must not keep the old file's set-user-id bit. */
START_TEST(no_set_user_id_is_kept) {
    struct stat status;
    entries(true);
    ck_assert(file_write_whole(in_folder("program"), "old", 3, error));
    ck_assert_int_eq(chmod(in_folder("program"), 07755), 0);
    ck_assert(file_write_whole(in_folder("program"), "new", 3, error));
    ck_assert(stat(in_folder("program"), &status) == 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0755);
}
END_TEST

static void assert_refused(const char *path, const char *word) {
    error[0] = '\0';
    ck_assert_msg(!file_can_write(path, error), "%s could be written", path);
    ck_assert_msg(strstr(error, word) != NULL, "%s: no '%s' in: %s", path, word, error);
}

START_TEST(outputs_are_known_before_they_are_made) {
    char long_name[300], path[512], linked[512];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    entries(true);
    ck_assert(file_can_write(in_folder("new"), error));
    ck_assert(file_can_write("new", error));
    ck_assert(file_can_write("/dev/null", error));
    ck_assert_int_eq(entries(false), 0);
    assert_refused("", "No such file");
    assert_refused(folder, "is a folder");
    assert_refused(in_folder("no/x"), "No such file");
    assert_refused(in_folder("x/"), "No such file");
    assert_refused(in_folder(long_name), "too long");
    ck_assert(file_write_whole(in_folder("file"), "x", 1, error));
    assert_refused(in_folder("file/x"), "Not a directory");
    snprintf(path, sizeof path, "%s", in_folder("file"));
    snprintf(linked, sizeof linked, "%s", in_folder("link"));
    ck_assert_int_eq(symlink("./file", linked), 0);
    ck_assert(file_same_target(path, path) && file_same_target(path, linked));
    ck_assert(file_same_target(in_folder("./file"), path));
    ck_assert(!file_same_target(path, in_folder("other")) && !file_same_target("/dev/null", "/dev/null"));
    ck_assert(file_same_target("new", "./new") && !file_same_target("new", path));
}
END_TEST

/* Returns true if the child has an open file in the folder, even one without a name. */
static bool is_writing(pid_t child) {
    for (int n = 3; n < 64; n++) {
        char name[64], to[1024];
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)child, n);
        const ssize_t length = readlink(name, to, sizeof to - 1);
        if (length < 0) continue;
        to[length] = '\0';
        const char *at = strstr(to, folder);
        if (at && at[strlen(folder)] == '/') return true;
    }
    return false;
}

/* A child that writes endlessly is interrupted, and must leave no file. */
static void end_a_writer(int number) {
    static unsigned char large[1 << 20];
    static file_part parts[100000]; /* 100 GB */
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) parts[p] = (file_part){large, sizeof large};
    const struct timespec moment = {.tv_nsec = 500000};
    int status = 0;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(number, SIG_DFL); /* Check's handler ends the whole process group */
        file_write_parts(in_folder("endless"), parts, sizeof parts / sizeof *parts, error);
        _exit(1);
    }
    for (int n = 0; n < 20000 && !is_writing(child); n++) nanosleep(&moment, NULL);
    ck_assert(is_writing(child));
    ck_assert_int_eq(kill(child, number), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == number, "status %x after signal %d", status,
                  number);
}

START_TEST(a_signal_leaves_no_temporary_file) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2};
    unsigned char *bytes = NULL;
    size_t size = 0;
    entries(true);
    ck_assert(file_write_whole(in_folder("endless"), "old", 3, error));
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        end_a_writer(numbers[n]);
        ck_assert_int_eq(entries(false), 1);
        ck_assert(file_read_whole(in_folder("endless"), &bytes, &size, error) && size == 3);
        free(bytes);
    }
    struct sigaction first, now;
    sigaction(SIGTERM, NULL, &first);
    ck_assert(file_write_whole(in_folder("endless"), "new", 3, error));
    ck_assert(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == first.sa_handler);
}
END_TEST

/* A child begins a file of several processes, whose temporary file has a name from the start, and
 * does not finish it. */
static pid_t begin_and_wait(char name[FILE_NAME_MOST]) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        char own[FILE_NAME_MOST] = "";
        static const int numbers[] = {SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2};
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) signal(numbers[n], SIG_DFL);
        if (!file_shared_begin(in_folder("shared"), 100, own, error)) _exit(1);
        if (write(ends[1], own, sizeof own) != sizeof own) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    for (size_t at = 0; at < FILE_NAME_MOST;) {
        const ssize_t got = read(ends[0], name + at, FILE_NAME_MOST - at);
        ck_assert_int_gt(got, 0);
        at += (size_t)got;
    }
    close(ends[0]);
    return child;
}

static void end_child(pid_t child, int number) {
    int status = 0;
    ck_assert_int_eq(kill(child, number), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == number);
}

static bool is_there(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

START_TEST(a_signal_leaves_no_shared_file) {
    static const int numbers[] = {SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2};
    char name[FILE_NAME_MOST];
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        const pid_t child = begin_and_wait(name);
        ck_assert(is_there(name));
        end_child(child, numbers[n]);
        ck_assert_msg(!is_there(name), "after signal %d", numbers[n]);
    }
}
END_TEST

/* The next write to a path removes what killed runs left behind. A file stays if its process lives,
 * if it is locked, or if another program, host or user made it. */
START_TEST(leftovers_of_killed_runs_go) {
    char name[FILE_NAME_MOST], kept[8][FILE_NAME_MOST + 32], host[16] = "", link_to[FILE_NAME_MOST + 32];
    entries(true);
    const pid_t child = begin_and_wait(name);
    ck_assert(file_write_whole(in_folder("other"), "x", 1, error));
    ck_assert(is_there(name));
    end_child(child, SIGKILL);
    ck_assert(is_there(name));
    ck_assert(sscanf(strstr(name, ".clattn-"), ".clattn-%15[0-9a-f]-", host) == 1);
    const int stem = (int)(strstr(name, ".clattn-") - name), pid = (int)child;
    snprintf(kept[0], sizeof kept[0], "%.*s.clattn-%s-%x-1", stem, name, host, (unsigned)getpid());
    snprintf(kept[1], sizeof kept[1], "%.*s.clattn-%s0-%x-1", stem, name, host, (unsigned)pid);
    snprintf(kept[2], sizeof kept[2], "%.*s.clattn-%s-%x-", stem, name, host, (unsigned)pid);
    snprintf(kept[3], sizeof kept[3], "%.*s.clattn-%s-%x-1.npy", stem, name, host, (unsigned)pid);
    snprintf(kept[4], sizeof kept[4], "%.*s.clattn-%x-1", stem, name, (unsigned)pid);
    /* a folder */
    snprintf(kept[5], sizeof kept[5], "%.*s.clattn-%s-%x-2", stem, name, host, (unsigned)pid);
    /* locked */
    snprintf(kept[6], sizeof kept[6], "%.*s.clattn-%s-%x-3", stem, name, host, (unsigned)pid);
    /* owned by another user */
    snprintf(kept[7], sizeof kept[7], "%.*s.clattn-%s-%x-5", stem, name, host, (unsigned)pid);
    snprintf(link_to, sizeof link_to, "%.*s.clattn-%s-%x-4", stem, name, host, (unsigned)pid);
    for (int n = 0; n < 8; n++)
        if (n == 5)
            ck_assert_int_eq(mkdir(kept[n], 0700), 0);
        else
            ck_assert_int_eq(close(creat(kept[n], 0600)), 0);
    ck_assert_int_eq(symlink(in_folder("other"), link_to), 0);
    const int held = open(kept[6], O_RDONLY);
    ck_assert(held >= 0 && flock(held, LOCK_EX) == 0);
    const bool root = geteuid() == 0 && chown(kept[7], 65534, 65534) == 0;
    ck_assert(file_write_whole(in_folder("other"), "y", 1, error));
    ck_assert_msg(!is_there(name), "%s is left", name);
    for (int n = 0; n < (root ? 8 : 7); n++) ck_assert_msg(is_there(kept[n]), "%s is gone", kept[n]);
    ck_assert(is_there(link_to) && is_there(in_folder("other")));
    close(held);
    ck_assert(file_write_whole(in_folder("other"), "z", 1, error));
    ck_assert(!is_there(kept[6]));
    ck_assert_int_eq(rmdir(kept[5]), 0);
    for (int n = 0; n < 8; n++)
        if (n < 5 || n == 7) (void)unlink(kept[n]);
    (void)unlink(link_to);
}
END_TEST

/* If the system supports it, a file of one process has no name until it is complete. */
START_TEST(kill_leaves_nothing) {
    const int probe = open(folder, O_WRONLY | O_TMPFILE, 0600); /* as a child would open it */
    if (probe >= 0) close(probe);
    entries(true);
    ck_assert(file_write_whole(in_folder("endless"), "old", 3, error));
    end_a_writer(SIGKILL);
    if (probe >= 0) ck_assert_int_eq(entries(false), 1);
    ck_assert(file_write_whole(in_folder("endless"), "new", 3, error));
    ck_assert_int_eq(entries(false), 1);
}
END_TEST

/* A rank's part of a shared file must not be written through a link. */
START_TEST(a_shared_file_is_no_link) {
    int descriptor = -1;
    ck_assert(file_write_whole(in_folder("target"), "old", 3, error));
    (void)unlink(in_folder("shared_link"));
    ck_assert_int_eq(symlink("target", in_folder("shared_link")), 0);
    ck_assert(!file_shared_open(in_folder("shared_link"), &descriptor, error));
    ck_assert(file_shared_open(in_folder("target"), &descriptor, error));
    ck_assert(file_shared_close(descriptor, error));
}
END_TEST

/* Shadows the system's umask, which only file_begin may call. While the mask is 0, a file created
 * by a driver's thread would be writable by everybody. */
static int masks_set;
static mode_t mask_now = 027;
mode_t umask(mode_t mask) {
    const mode_t old = mask_now;
    masks_set++;
    mask_now = mask;
    return old;
}

START_TEST(the_umask_is_read_once) {
    struct stat status;
    file_begin();
    ck_assert_int_eq(mask_now, 027);
    const int before = masks_set;
    for (int n = 0; n < 2; n++) {
        const file_part part = {"new\n", 4};
        const char *path = in_folder(n ? "second" : "first");
        ck_assert(file_write_parts(path, &part, 1, error));
        ck_assert(stat(path, &status) == 0 && (status.st_mode & 07777) == 0640);
    }
    ck_assert_int_eq(masks_set, before);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("files");
    TCase *group = tcase_create("files");
    tcase_set_timeout(group, 120);
    tcase_add_unchecked_fixture(group, enter, leave);
    tcase_add_test(group, a_failed_write_leaves_the_old_file);
    tcase_add_test(group, links_are_followed);
    tcase_add_test(group, the_umask_is_read_once);
    tcase_add_test(group, no_set_user_id_is_kept);
    tcase_add_test(group, outputs_are_known_before_they_are_made);
    tcase_add_test(group, a_signal_leaves_no_temporary_file);
    tcase_add_test(group, a_signal_leaves_no_shared_file);
    tcase_add_test(group, leftovers_of_killed_runs_go);
    tcase_add_test(group, kill_leaves_nothing);
    tcase_add_test(group, a_shared_file_is_no_link);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
