// commands.c: the table of sub-commands, and the commands `completion` and `manual`. These run
// every command with --help while options_text.c prints in the form of a shell or of man.
#include "cli/common/commands.h"
#include "cli/files/file.h"
#include "cli/common/tool.h"

// Runs a sub-command. argv[0] is the command's name.
typedef int command_run(int argc, char **argv);
command_run tool_devices, tool_doctor, tool_attend, tool_layer, tool_heatmap, tool_verify, tool_bench,
    tool_tune, tool_compare, tool_report, tool_completion, tool_manual;

const tool_command tool_commands[] = {
    {"devices", tool_devices, "list OpenCL devices and the kernels that run on them"},
    {"doctor", tool_doctor, "diagnose OpenCL on this machine, as a report to send"},
    {"attend", tool_attend, "scaled dot-product attention on files"},
    {"layer", tool_layer, "multi-head attention with a model's weights"},
    {"heatmap", tool_heatmap, "draw attention weights, or a mask"},
    {"verify", tool_verify, "verify a device: every kernel on hard cases"},
    {"bench", tool_bench, "verify and measure attention, and compare with the device's limits"},
    {"tune", tool_tune, "find the fastest kernel variants for this device"},
    {"compare", tool_compare, "show which differences between benches are real"},
    {"report", tool_report, "show benches as one page: devices, rooflines, cases, ratios, heads"},
    {"completion", tool_completion, "print a shell's completion of these commands and their options"},
    {"manual", tool_manual, "print manual pages of the program and its commands"},
};
const size_t tool_command_count = sizeof tool_commands / sizeof tool_commands[0];

const tool_command *tool_command_named(const char *name) {
    for (size_t i = 0; i < tool_command_count; i++)
        if (!strcmp(name, tool_commands[i].name)) return &tool_commands[i];
    return NULL;
}

static int ask(const tool_command *command) {
    char name[32], help[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    return command->run(2, (char *[]){name, help, NULL});
}

static void print_names(FILE *to) {
    for (size_t i = 0; i < tool_command_count; i++) fprintf(to, "%s%s", i ? " " : "", tool_commands[i].name);
}

static void begin_bash(FILE *to) {
    fprintf(to,
            "# bash completion of clattn %s\n_clattn() {\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n    COMPREPLY=()\n"
            "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        mapfile -t COMPREPLY < <(compgen -W '",
            clattn_version());
    print_names(to);
    fprintf(to, " help version --help --version' -- \"$word\")\n        return\n    fi\n    case "
                "${COMP_WORDS[1]} in\n"
                "    help) [ \"$COMP_CWORD\" -gt 2 ] || mapfile -t COMPREPLY < <(compgen -W '");
    print_names(to);
    fprintf(to, "' -- \"$word\") ;;\n");
}

static void begin_zsh(FILE *to) {
    fprintf(to, "#compdef clattn\n# zsh completion of clattn %s\nlocal -a commands=(\n", clattn_version());
    for (size_t i = 0; i < tool_command_count; i++) {
        fprintf(to, "    '%s:", tool_commands[i].name);
        options_text_zsh(tool_commands[i].summary, to);
        fprintf(to, "'\n");
    }
    fprintf(to, ")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
                "shift words\n(( CURRENT-- ))\ncase $words[1] in\n    help) _describe command commands ;;\n");
}

static void begin_fish(FILE *to) {
    fprintf(to, "# fish completion of clattn %s\ncomplete -c clattn -f\n", clattn_version());
    for (size_t i = 0; i < tool_command_count; i++) {
        fprintf(to, "complete -c clattn -n __fish_use_subcommand -a %s -d '", tool_commands[i].name);
        options_text_quoted(tool_commands[i].summary, true, to);
        fprintf(to, "'\n");
    }
}

static const struct {
    void (*begin)(FILE *to);
    options_form form;
    const char *end;
} shells[] = {{begin_bash, OPTIONS_BASH, "    esac\n}\ncomplete -o filenames -F _clattn clattn\n"},
              {begin_zsh, OPTIONS_ZSH, "esac\n"},
              {begin_fish, OPTIONS_FISH, ""}};

static int print_completion(int shell, FILE *to) {
    int status = EXIT_DONE;
    shells[shell].begin(to);
    options_text_choose(shells[shell].form, to);
    for (size_t i = 0; i < tool_command_count && status == EXIT_DONE; i++) status = ask(&tool_commands[i]);
    options_text_choose(OPTIONS_HELP, NULL);
    fputs(shells[shell].end, to);
    return status;
}

// Print the completion script as a JSON object.
static int completion_json(int shell, const char *name) {
    memory_file m;
    FILE *to = memory_file_open(&m);
    int status = to ? print_completion(shell, to) : EXIT_FAILED;
    char *script = to ? memory_file_close(&m) : NULL;
    tool_begin("completion");
    if (!script) status = tool_failed("no memory");
    if (status == EXIT_DONE) status = report_json(json_pack("{s:s, s:s}", "shell", name, "script", script));
    free(script);
    return status;
}

static const option_row json_rows[] = {{"json", NULL,
                                        "the same as JSON, and an error as one object on stderr",
                                        OPTION_SWITCH, 0, NULL, 0, 0, NULL}};

int tool_completion(int argc, char **argv) {
    static const char *const names[] = {"bash", "zsh", "fish", NULL};
    char why[256];
    int shell = 0;
    bool json = false;
    const option_group group = {"options", json_rows, 1, &json};
    command_line line = {.command = "completion",
                         .summary = "bash, zsh or fish: print that shell's completion script",
                         .example =
                             "clattn completion bash > ~/.local/share/bash-completion/completions/clattn",
                         .groups = &group,
                         .group_count = 1,
                         .positional_max = 1};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (!line.positional_count) return tool_wrong("a shell is needed: bash, zsh or fish");
    if (!option_choice(line.positional[0], names, &shell, why))
        return tool_wrong("%s: %s", line.positional[0], why);
    return json ? completion_json(shell, names[shell]) : print_completion(shell, stdout);
}

static void print_title(const char *name, const char *summary) {
    char upper[40];
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
    upper[i] = '\0';
    printf(".TH %s 1 \"\" \"clattn %s\" \"User Commands\"\n.SH NAME\n", upper, clattn_version());
    options_text_roff(name, stdout);
    printf(" \\- ");
    options_text_roff(summary, stdout);
    printf("\n");
}

static void print_end(const char *see) {
    printf(".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe device or the run failed, or a check did\n.TP\n2\nthe "
           "request was wrong: one line names the error and what is accepted; with \\fB\\-\\-json\\fR it is "
           "an object on standard error, {\"error\": {\"status\", \"command\", "
           "\"message\"}}\n.TP\n130\ninterrupted (Ctrl\\-C): the program ends by the signal SIGINT, which a "
           "shell reports as 130; results measured before are written\n.SH SEE ALSO\n%s\n",
           see);
}

static int print_program(void) {
    print_title("clattn", "transformer attention on any OpenCL device");
    printf(".SH SYNOPSIS\n.B clattn\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n");
    for (size_t i = 0; i < tool_command_count; i++) {
        printf(".TP\n\\fB%s\\fR\n", tool_commands[i].name);
        options_text_roff(tool_commands[i].summary, stdout);
        printf("\n");
    }
    printf(".SH ENVIRONMENT\n.TP\n.B CLATTN_DEVICE\nthe device if \\fB\\-\\-device\\fR is not given\n.TP\n.B "
           "XDG_CACHE_HOME\nits subfolder clattn stores compiled kernels if \\fB\\-\\-cache\\-dir\\fR is not "
           "given\n.TP\n.B NO_COLOR\npictures on a terminal are drawn without colours\n.TP\n.B COLUMNS\nthe "
           "width of pictures on a terminal\n");
    print_end("\\fBclattn\\-\\fICOMMAND\\fR(1)");
    return EXIT_DONE;
}

// Print the option tables of one command, or of all, as JSON.
static int manual_json(const tool_command *command) {
    int status = EXIT_DONE;
    options_text_choose(OPTIONS_JSON, NULL);
    for (size_t i = 0; i < tool_command_count && status == EXIT_DONE; i++)
        if (!command || command == &tool_commands[i]) status = ask(&tool_commands[i]);
    options_text_choose(OPTIONS_HELP, NULL);
    json_t *tables = options_text_json();
    if (status == EXIT_DONE)
        status = report_json(json_pack("{s:s, s:O}", "clattn", clattn_version(), "commands", tables));
    json_decref(tables);
    return status;
}

int tool_manual(int argc, char **argv) {
    char name[48];
    bool json = false;
    const option_group group = {"options", json_rows, 1, &json};
    command_line line = {
        .command = "manual",
        .summary = "the manual page of a command, or of the program, in man's own format, on stdout",
        .example = "clattn manual attend | man -l -",
        .groups = &group,
        .group_count = 1,
        .positional_max = 1};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (!line.positional_count) return json ? manual_json(NULL) : print_program();
    const tool_command *command = tool_command_named(line.positional[0]);
    if (command && json) return manual_json(command);
    if (!command) return tool_wrong("%s: is no command; see clattn --help", line.positional[0]);
    snprintf(name, sizeof name, "clattn-%s", command->name);
    print_title(name, command->summary);
    options_text_choose(OPTIONS_MANUAL, NULL);
    status = ask(command);
    options_text_choose(OPTIONS_HELP, NULL);
    print_end("\\fBclattn\\fR(1)");
    return status;
}
