// options_text.c: see tool.h.
#include "cli/common/tool.h"

#include <ctype.h>

#define COLUMNS 100
#define LEFT 28

static options_form chosen = OPTIONS_HELP;
static FILE *chosen_to;
static json_t *tables;

const char *option_dashes(const option_row *row) {
    return row->name[0] == '-' ? "" : "--";
}

void options_text_choose(options_form form, FILE *to) {
    chosen = form;
    chosen_to = to;
    if (form == OPTIONS_JSON && !tables) tables = json_array();
}

json_t *options_text_json(void) {
    json_t *taken = tables;
    tables = NULL;
    return taken;
}

void options_text_wrapped(const char *text, int at, int indent, FILE *to) {
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (at > indent && at + 1 + length > COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', to);
            at++;
        }
        fprintf(to, "%.*s", length, text);
        at += length;
        text += length;
        while (*text == ' ') text++;
    }
    fputc('\n', to);
}

static void print_indented(const char *text, FILE *to) {
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        fprintf(to, "    %.*s\n", (int)strcspn(text, "\n"), text);
}

static void print_help(const command_line *line, FILE *to) {
    const int heading = fprintf(to, "clattn %s:", line->command);
    fputc(' ', to);
    options_text_wrapped(line->summary, heading + 1, heading + 1, to);
    fprintf(to, "\nexample:\n");
    print_indented(line->example, to);
    EACH_OPTION(line, group, row, n) {
        if (row == group->rows) fprintf(to, "\n%s:\n", group->title);
        if (!row->help) continue;
        const int wide = fprintf(to, "  %s%s%s%s", option_dashes(row), row->name, row->value ? " " : "",
                                 row->value ? row->value : "");
        fprintf(to, "%*s", wide < LEFT + 3 ? LEFT + 3 - wide : 1, "");
        options_text_wrapped(row->help, wide < LEFT + 3 ? LEFT + 3 : wide + 1, LEFT + 3, to);
    }
}

void options_text_roff(const char *text, FILE *to) {
    if (*text == '.' || *text == '\'') fputs("\\&", to);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '-')
            fputs("\\-", to);
        else if (*text == '\'')
            fputs("\\(aq", to);
        else
            fputc(*text, to);
        while (*text == '\n' && text[1] == ' ') text++; // skip the indent of the help text
    }
}

static void print_manual(const command_line *line, FILE *to) {
    fprintf(to, ".SH SYNOPSIS\n.B clattn %s\n[\\fIOPTIONS\\fR]%s\n.SH EXAMPLE\n.EX\n", line->command,
            line->positional_max ? " \\fIFILE\\fR..." : "");
    options_text_roff(line->example, to);
    fputs("\n.EE\n.SH OPTIONS\n", to);
    EACH_OPTION(line, group, row, n) {
        if (row == group->rows) fputs(".SS ", to), options_text_roff(group->title, to), fputc('\n', to);
        if (!row->help) continue;
        fputs(".TP\n\\fB", to);
        options_text_roff(option_dashes(row), to);
        options_text_roff(row->name, to);
        fputs("\\fR", to);
        if (row->value) fputs(" \\fI", to), options_text_roff(row->value, to), fputs("\\fR", to);
        fputc('\n', to);
        options_text_roff(row->help, to);
        fputc('\n', to);
    }
}

// True if the value is one of a fixed list, which a table writes as words with bars between them.
// Other values are files or free text.
static bool has_words(const option_row *row) {
    if (!row->value || !strchr(row->value, '|')) return false;
    for (const char *c = row->value; *c; c++)
        if (!islower((unsigned char)*c) && *c != '|' && *c != '-') return false;
    return true;
}

bool option_takes_file(const option_row *row) {
    return row->value &&
           (strstr(row->value, "FILE") || strstr(row->value, "DIR") || strstr(row->value, "TENSOR"));
}

static void print_words(const char *value, FILE *to) {
    for (const char *c = value; *c; c++) fputc(*c == '|' ? ' ' : *c, to);
}

// Values that are neither files nor fixed words complete to nothing. `-o default` for the whole
// command would offer file names there.
static void print_bash(const command_line *line, FILE *to) {
    fprintf(to, "    %s)\n        case $before in\n", line->command);
    EACH_OPTION(line, group, row, n) {
        if (!has_words(row)) continue;
        fprintf(to, "        %s%s) mapfile -t COMPREPLY < <(compgen -W '", option_dashes(row), row->name);
        print_words(row->value, to);
        fputs("' -- \"$word\"); return ;;\n", to);
    }
    EACH_OPTION(line, group, row, n) {
        if (row->value && !has_words(row) && option_takes_file(row))
            fprintf(to, "        %s%s) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n",
                    option_dashes(row), row->name);
        else if (row->value && !has_words(row))
            fprintf(to, "        %s%s) return ;;\n", option_dashes(row), row->name);
    }
    fputs("        esac\n        case $word in\n        -*) mapfile -t COMPREPLY < <(compgen -W '", to);
    EACH_OPTION(line, group, row, n)
    if (row->help) fprintf(to, "%s%s ", option_dashes(row), row->name);
    fprintf(to, "--help' -- \"$word\") ;;\n        *) %s ;;\n        esac ;;\n",
            line->positional_max ? "mapfile -t COMPREPLY < <(compgen -f -- \"$word\")" : ":");
}

void options_text_quoted(const char *text, bool fish, FILE *to) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs(fish ? "\\'" : "'\\''", to);
        else if (fish && *text == '\\')
            fputs("\\\\", to);
        else
            fputc(*text, to);
    }
}

void options_text_zsh(const char *text, FILE *to) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", to);
            continue;
        }
        if (strchr("[]:\\", *text)) fputc('\\', to);
        fputc(*text, to);
    }
}

static void print_zsh(const command_line *line, FILE *to) {
    fprintf(to, "    %s) _arguments", line->command);
    EACH_OPTION(line, group, row, n) {
        if (!row->help) continue;
        fprintf(to, " \\\n        '%s%s%s[", row->value && strstr(row->value, "...") ? "*" : "",
                option_dashes(row), row->name);
        options_text_zsh(row->help, to);
        fputc(']', to);
        if (row->value) {
            fputc(':', to);
            options_text_zsh(row->value, to);
            fputc(':', to);
            if (has_words(row))
                fputc('(', to), print_words(row->value, to), fputc(')', to);
            else if (option_takes_file(row))
                fputs("_files", to);
        }
        fputc('\'', to);
    }
    fprintf(to, " \\\n        '--help[its options, with an example]'%s ;;\n",
            line->positional_max ? " \\\n        '*:file:_files'" : "");
}

static void print_fish(const command_line *line, FILE *to) {
    EACH_OPTION(line, group, row, n) {
        if (!row->help) continue;
        fprintf(to, "complete -c clattn -n '__fish_seen_subcommand_from %s'", line->command);
        if (row->name[0] == '-')
            fprintf(to, " -s %s", row->name + 1);
        else
            fprintf(to, " -l %s", row->name);
        if (has_words(row))
            fputs(" -x -a '", to), print_words(row->value, to), fputc('\'', to);
        else if (row->value)
            fputs(option_takes_file(row) ? " -r -F" : " -x", to);
        fputs(" -d '", to);
        options_text_quoted(row->help, true, to);
        fputs("'\n", to);
    }
    fprintf(to,
            "complete -c clattn -n '__fish_seen_subcommand_from %s' -l help -d 'its options, with an "
            "example'%s\n",
            line->command, "");
    if (line->positional_max)
        fprintf(to, "complete -c clattn -n '__fish_seen_subcommand_from %s' -F\n", line->command);
}

static void add_json(const command_line *line, FILE *to) {
    json_t *options = json_array();
    (void)to;
    EACH_OPTION(line, group, row, n) {
        json_array_append_new(options, json_pack("{s:s, s:o, s:s?, s:s}", "group", group->title, "name",
                                                 json_sprintf("%s%s", option_dashes(row), row->name), "value",
                                                 row->value, "help",
                                                 row->help ? row->help : "another name of an option above"));
    }
    json_array_append_new(tables, json_pack("{s:s, s:s, s:s, s:b, s:o}", "command", line->command, "summary",
                                            line->summary, "example", line->example, "takes_files",
                                            line->positional_max > 0, "options", options));
}

void options_text_print(const command_line *line) {
    static void (*const forms[])(const command_line *, FILE *) = {print_help, print_manual, print_bash,
                                                                  print_zsh,  print_fish,   add_json};
    forms[chosen](line, chosen_to ? chosen_to : stdout);
}
