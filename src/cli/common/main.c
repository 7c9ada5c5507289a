// main.c: find and run the sub-command.
#define _GNU_SOURCE // sched_getaffinity
#include <errno.h>
#include <locale.h>
#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

#include "cli/common/commands.h"
#include "cli/common/progress.h"
#include "cli/files/file.h"
#include "cli/common/tool.h"
#include "cli/doctor/doctor_child.h"

static void print_help(FILE *to) {
    fprintf(to,
            "clattn %s: transformer attention on any OpenCL device\n\nusage: clattn COMMAND [OPTIONS]\n\n",
            clattn_version());
    for (size_t i = 0; i < tool_command_count; i++)
        fprintf(to, "  %-10s %s\n", tool_commands[i].name, tool_commands[i].summary);
    fprintf(to,
            "\nclattn COMMAND --help prints its options, with an example; clattn --version the version.\n");
}

// Check that all output was written. Results go to stdout, and only this function notices a full
// disk.
static int finish_output(int status) {
    const char *why = ferror(stdout) ? "an earlier write failed" : NULL;
    if (fflush(stdout) != 0) why = strerror(errno);
    if (!why) return status;
    tool_begin(NULL);
    tool_failed("standard output could not be written: %s", why);
    return status == EXIT_DONE ? EXIT_FAILED : status;
}

static int run_command(int argc, char **argv) {
    const char *names[32];
    char all[256] = "";
    const tool_command *command = tool_command_named(argv[0]);
    if (command) return command->run(argc, argv);
    for (size_t i = 0; i < tool_command_count; i++) {
        const size_t used = strlen(all);
        names[i] = tool_commands[i].name;
        snprintf(all + used, sizeof all - used, "%s %s",
                 !i                            ? ""
                 : i + 1 == tool_command_count ? " or"
                                               : ",",
                 names[i]);
    }
    const char *near = nearest_name(argv[0], names, tool_command_count);
    return tool_wrong("no command '%s'%s%s%s:%s; see clattn --help", argv[0], near ? "; did you mean " : "",
                      near ? near : "", near ? "?" : "", all);
}

static int print_version(bool json) {
    printf(json ? "{\"clattn\": \"%s\"}\n" : "clattn %s\n", clattn_version());
    return EXIT_DONE;
}

static int run(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--child")) return tool_child(argc - 1, argv + 1);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_WRONG;
    }
    const bool help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help");
    const bool version =
        !strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version");
    const bool json = argc == 3 && !strcmp(argv[2], "--json");
    if (!help && !version) return run_command(argc - 1, argv + 1);
    if (version && (argc == 2 || json)) return print_version(json);
    if (help && json) return run_command(2, (char *[]){(char[]){"manual"}, argv[2], NULL});
    if (argc == 2) {
        print_help(stdout);
        return EXIT_DONE;
    }
    char option[] = "--help";
    if (help && argc == 3) return run_command(2, (char *[]){argv[2], option, NULL});
    return tool_wrong("%s: %s: is one argument too many; see clattn --help", argv[1], argv[argc - 1]);
}

#ifdef __linux__
// Pin each worker of PoCL to a core, before OpenCL is first used. Otherwise two workers often share
// a core for a whole call and double its time. PoCL 3.1 aborts if it cannot pin worker i to CPU i.
// Pin only if this process may use every CPU and the number of workers is PoCL's default.
static bool owns_every_cpu(void) {
    const long count = sysconf(_SC_NPROCESSORS_CONF);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (count < 1 || count > CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    for (int i = 0; i < (int)count; i++)
        if (!CPU_ISSET(i, &allowed)) return false;
    return true;
}

static void pin_workers(void) {
    const bool told = getenv("POCL_MAX_PTHREAD_COUNT") || getenv("POCL_PTHREAD_MIN_THREADS");
    if (!told && owns_every_cpu()) setenv("POCL_AFFINITY", "1", 0); // keeps the user's value
}
#else
static void pin_workers(void) {}
#endif

int main(int argc, char **argv) {
    file_begin();
    if (argc < 2 || strcmp(argv[1], "doctor"))
        pin_workers();       // doctor reports the user's environment, and calls no OpenCL itself
    setlocale(LC_CTYPE, ""); // numbers stay in the C locale, which files and JSON need
    tool_errors_begin(argc, argv);
    const int status = tool_errors_end(finish_output(run(argc, argv)));
    if (status == EXIT_INTERRUPTED) interrupt_end();
    return status;
}
