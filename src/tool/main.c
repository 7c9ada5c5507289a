// main.c: finds the sub-command. What each does is in its own file.
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "tool/tool.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"devices", tool_devices, "what OpenCL devices there are, and which kernels they take"},
    {"attend", tool_attend, "scaled dot-product attention on files"},
    {"layer", tool_layer, "multi-head attention with a model's weights"},
    {"heatmap", tool_heatmap_any, "draw attention weights, or a mask"},
    {"verify", tool_verify, "is this device right? every kernel on hard cases"},
    {"bench", tool_bench, "measure attention, verified first, against what the device can do"},
    {"tune", tool_tune, "find the fastest variants of this device, as rows for the planner"},
    {"compare", tool_compare, "which differences of two benches are real"},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *to) {
    fprintf(to,
            "clattn %s: transformer attention on any OpenCL device\n\nusage: clattn COMMAND [OPTIONS]\n\n",
            clattn_version());
    for (size_t i = 0; i < COMMANDS; i++) fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\nclattn COMMAND --help tells its options, with an example.\n");
}

// Whatever was printed must have arrived: results go to stdout, and a full disk takes none of them. Nothing else looks.
static int finish_output(int status) {
    const char *why = ferror(stdout) ? "an earlier write failed" : NULL;
    if (fflush(stdout) != 0) why = strerror(errno);
    if (!why) return status;
    fprintf(stderr, "clattn: standard output could not be written: %s\n", why);
    return status == EXIT_DONE ? EXIT_FAILED : status;
}

static int run_command(int argc, char **argv) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[0], commands[i].name)) return commands[i].run(argc, argv);
    fprintf(stderr,
            "clattn: no command '%s': devices, attend, layer, heatmap, verify, bench, tune or compare; see "
            "clattn --help\n",
            argv[0]);
    return EXIT_WRONG;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_WRONG;
    }
    const bool help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help");
    const bool version = !strcmp(argv[1], "--version");
    if (!help && !version) return run_command(argc - 1, argv + 1);
    if (argc == 2) {
        if (help) print_help(stdout);
        if (version) printf("clattn %s\n", clattn_version());
        return EXIT_DONE;
    }
    char option[] = "--help";
    if (help && argc == 3) return run_command(2, (char *[]){argv[2], option, NULL});
    fprintf(stderr, "clattn %s: %s: is one argument too many; see clattn --help\n", argv[1], argv[argc - 1]);
    return EXIT_WRONG;
}

int main(int argc, char **argv) {
    tool_pin_workers();
    setlocale(LC_CTYPE, ""); // numbers stay in the C locale: files and JSON depend on it
    return finish_output(run(argc, argv));
}
