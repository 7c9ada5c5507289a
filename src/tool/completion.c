// completion.c: clattn completion and clattn manual: each command's table, in the form that a shell or man reads. A command
// is asked for its help, which options_text.c then prints in that form.
#include <stdio.h>
#include <string.h>

#include "tool/commands.h"
#include "tool/options_text.h"

static int ask(const tool_command *command) {
    char name[32], help[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    return command->run(2, (char *[]){name, help, NULL});
}

static void print_names(void) {
    for (size_t i = 0; i < tool_command_count; i++) printf("%s%s", i ? " " : "", tool_commands[i].name);
}

static void begin_bash(void) {
    printf("# bash completion of clattn %s\n_clattn() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '",
           clattn_version());
    print_names();
    printf(" help --help --version' -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n"
           "    help) [ \"$COMP_CWORD\" -gt 2 ] || COMPREPLY=($(compgen -W '");
    print_names();
    printf("' -- \"$word\")) ;;\n");
}

static void end_bash(void) {
    printf("    esac\n}\ncomplete -o filenames -F _clattn clattn\n");
}

static void begin_zsh(void) {
    printf("#compdef clattn\n# zsh completion of clattn %s\nlocal -a commands=(\n", clattn_version());
    for (size_t i = 0; i < tool_command_count; i++) {
        printf("    '%s:", tool_commands[i].name);
        options_text_zsh(tool_commands[i].summary, stdout);
        printf("'\n");
    }
    printf(")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
           "shift words\n(( CURRENT-- ))\ncase $words[1] in\n    help) _describe command commands ;;\n");
}

static void end_zsh(void) {
    printf("esac\n");
}

static void begin_fish(void) {
    printf("# fish completion of clattn %s\ncomplete -c clattn -f\n", clattn_version());
    for (size_t i = 0; i < tool_command_count; i++) {
        printf("complete -c clattn -n __fish_use_subcommand -a %s -d '", tool_commands[i].name);
        options_text_quoted(tool_commands[i].summary, true, stdout);
        printf("'\n");
    }
}

static void end_fish(void) {}

static const struct {
    void (*begin)(void), (*end)(void);
    options_form form;
} shells[] = {{begin_bash, end_bash, OPTIONS_BASH},
              {begin_zsh, end_zsh, OPTIONS_ZSH},
              {begin_fish, end_fish, OPTIONS_FISH}};

int tool_completion(int argc, char **argv) {
    static const char *const names[] = {"bash", "zsh", "fish", NULL};
    char why[256];
    int shell = 0;
    command_line line = {.command = "completion",
                         .summary = "bash, zsh or fish: what that shell completes, on stdout",
                         .example =
                             "clattn completion bash > ~/.local/share/bash-completion/completions/clattn",
                         .positional_max = 1};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (!line.positional_count) return tool_wrong("completion", "a shell is needed: bash, zsh or fish");
    if (!option_choice(line.positional[0], names, &shell, why))
        return tool_wrong("completion", "%s: %s", line.positional[0], why);
    shells[shell].begin();
    options_text_choose(shells[shell].form);
    for (size_t i = 0; i < tool_command_count && (status < 0 || status == EXIT_DONE); i++)
        status = ask(&tool_commands[i]);
    options_text_choose(OPTIONS_HELP);
    shells[shell].end();
    return status;
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
           "request was wrong: "
           "one line says what, and what would be accepted\n.SH SEE ALSO\n%s\n",
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
    printf(".SH ENVIRONMENT\n.TP\n.B CLATTN_DEVICE\nthe device where \\fB\\-\\-device\\fR is not "
           "given\n.TP\n.B XDG_CACHE_HOME\n"
           "whose folder clattn keeps compiled kernels, where \\fB\\-\\-cache\\-dir\\fR is not given\n");
    print_end("\\fBclattn\\-\\fICOMMAND\\fR(1)");
    return EXIT_DONE;
}

int tool_manual(int argc, char **argv) {
    char name[48];
    command_line line = {
        .command = "manual",
        .summary = "the manual page of a command, or of the program, in man's own format, on stdout",
        .example = "clattn manual attend | man -l -",
        .positional_max = 1};
    int status = options_parse(&line, argc, argv);
    if (status >= 0) return status;
    if (!line.positional_count) return print_program();
    const tool_command *command = tool_command_named(line.positional[0]);
    if (!command) return tool_wrong("manual", "%s: is no command; see clattn --help", line.positional[0]);
    snprintf(name, sizeof name, "clattn-%s", command->name);
    print_title(name, command->summary);
    options_text_choose(OPTIONS_MANUAL);
    status = ask(command);
    options_text_choose(OPTIONS_HELP);
    print_end("\\fBclattn\\fR(1)");
    return status;
}
