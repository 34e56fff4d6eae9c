/* SPDX-License-Identifier: Apache-2.0
 *
 * What all command lines have in common, of programs of ours and of applications: the nearest name for a misspelt option or
 * command, completion for shells, manual pages. All are made of the options as argp has them, so that nothing is written twice.
 *
 * Two words are for programs and stand in no help. Before the last word, --complete prints what that word may become, one a line
 * with its description behind a tab, or ":files". --man prints the manual page of a command. */
#include "app/app.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char complete[] = "--complete", manual[] = "--man";

/* Our options: argp_parse puts its own beside them, in a parser of its own around ours. */
static const struct argp_option *options_of(const struct argp *argp)
{
    while (!argp->options && argp->children && argp->children[0].argp)
        argp = argp->children[0].argp;
    return argp->options;
}

static bool is_end(const struct argp_option *o) { return !o->name && !o->key && !o->doc && !o->group; }

void samba_print_version(void *into, const samba_option_row *row, char *text, struct argp_state *state)
{
    (void)into, (void)row, (void)text, (void)state;
    printf("sambaflow %s\n", samba_version());
    exit(EXIT_SUCCESS);
}

bool samba_words_ask(int argc, char **argv)
{
    static const char *const asking[] = {"--help", "-?", "--usage", "--version", manual};
    bool asks = argc > 2 && strcmp(argv[argc - 2], complete) == 0;
    for (int i = 1; i < argc && !asks; i++)
        for (int k = 0; k < SAMBA_COUNT(asking) && !asks; k++)
            asks = strcmp(argv[i], asking[k]) == 0;
    return asks;
}

int samba_options_list(const samba_option_row *rows, int count, int commands, struct argp_option *options)
{
    int used = 0, heading = -1;
    for (int i = 0; i < count; i++) {
        const bool shown = (rows[i].commands & commands) == commands;
        if (!rows[i].name) {
            heading = i;
            continue;
        }
        if (shown && heading >= 0)
            options[used++] = samba_option_of(rows, heading);
        heading = shown ? -1 : heading;
        options[used] = samba_option_of(rows, i);
        options[used++].flags |= shown ? 0 : OPTION_HIDDEN;
    }
    options[used] = (struct argp_option){0};
    return used;
}

/* ---- misspelt ---- */

static const struct argp_option *find_option(const struct argp_option *options, const char *name, size_t length)
{
    const struct argp_option *found = NULL;
    for (const struct argp_option *o = options; !is_end(o); o++)
        if (o->name && strncmp(o->name, name, length) == 0 && (!found || !o->name[length])) /* argp takes the beginning, too */
            found = o;
    return found;
}

static const char *nearest_option(const struct argp_option *options, const char *name)
{
    enum { MOST = 256 };
    const char *known[MOST] = {"help", "usage", "version"};
    int count = 3;
    for (const struct argp_option *o = options; !is_end(o); o++)
        if (o->name && !(o->flags & OPTION_HIDDEN) && count < MOST)
            known[count++] = o->name;
    return samba_nearest(name, known, count);
}

/* Does the word "-x" take the next one? */
static bool takes_next(const struct argp_option *options, const char *word)
{
    bool takes = false;
    for (const struct argp_option *o = options; !is_end(o); o++)
        takes = takes || (o->arg && o->key == word[1] && word[1] != '-' && !word[2]);
    return takes;
}

void samba_words_check(struct argp_state *state)
{
    const struct argp_option *options = options_of(state->root_argp);
    state->name = state->argv[0]; /* argp sets it later */
    for (int i = 1; i < state->argc && strcmp(state->argv[i], "--") != 0; i++) {
        const char *word = state->argv[i];
        const size_t length = strcspn(word, "=");
        if (strncmp(word, "--", 2) != 0) {
            i += word[0] == '-' && takes_next(options, word);
            continue;
        }
        if (strncmp("--help", word, length) == 0 || strncmp("--usage", word, length) == 0)
            continue;
        const struct argp_option *found = find_option(options, word + 2, length - 2);
        if (!found) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(length - 2), word + 2);
            const char *near = nearest_option(options, name);
            argp_error(state, "there is no option --%s%s%s%s", name, near ? ": did you mean --" : "", near ? near : "",
                       near ? "?" : "");
        }
        i += found && found->arg && !word[length];
    }
}

void samba_command_unknown(const struct argp_state *state, const char *word, const samba_command_word *commands)
{
    enum { MOST = 32 };
    const char *names[MOST], *between = "";
    char listed[512] = "";
    int count = 0;
    for (; commands[count].name && count < MOST; count++) {
        names[count] = commands[count].name;
        snprintf(listed + strlen(listed), sizeof listed - strlen(listed), "%s%s", between, names[count]);
        between = commands[count + 1].name && commands[count + 2].name ? ", " : " or ";
    }
    if (!word)
        argp_error(state, "give a command: %s", listed);
    const char *near = samba_nearest(word, names, count);
    argp_error(state, "'%s' is no command%s%s%s: give %s", word, near ? " (did you mean " : "", near ? near : "",
               near ? "?)" : "", listed);
}

/* ---- completion ---- */

static void offer(const char *front, const char *word, int length, const char *partial, const char *what)
{
    const size_t typed = strlen(partial), begun = strlen(front);
    if (typed <= begun || strncmp(word, partial + begun, typed - begun) == 0)
        printf("%s%.*s\t%s\n", front, length, word, what ? what : "");
}

/* The values of an option: its words, where it names them ("fp32|bf16"). */
static void offer_values(const char *front, const struct argp_option *option, const char *partial)
{
    static const char *const paths[] = {"FILE", "FOLDER", "PATH", "NAME=FILE"};
    if (!strchr(option->arg, '|')) {
        for (int i = 0; i < SAMBA_COUNT(paths); i++)
            if (strcmp(option->arg, paths[i]) == 0)
                puts(":files");
        return;
    }
    for (const char *word = option->arg; *word; word += strcspn(word, "|"), word += *word == '|') {
        const int length = (int)strcspn(word, "|");
        const size_t typed = strlen(partial) - strlen(front);
        if (typed <= (size_t)length && strncmp(word, partial + strlen(front), typed) == 0)
            printf("%s%.*s\t\n", front, length, word);
    }
}

static void offer_options(const struct argp_option *options, const char *partial)
{
    for (const struct argp_option *o = options; !is_end(o); o++)
        if (o->name && !(o->flags & OPTION_HIDDEN))
            offer("--", o->name, (int)strlen(o->name), partial, o->doc);
    offer("--", "help", 4, partial, "Print what there is");
}

static bool has_command(int argc, char **argv, const samba_command_word *commands)
{
    bool has = false;
    for (int i = 1; i < argc; i++)
        for (int k = 0; commands && commands[k].name && !has; k++)
            has = strcmp(argv[i], commands[k].name) == 0;
    return has;
}

static void print_completion(const struct argp_option *options, const samba_command_word *commands, int argc, char **argv)
{
    const char *partial = argv[argc - 1], *before = argc > 3 ? argv[argc - 3] : "", *equals = strchr(partial, '=');
    const struct argp_option *its = NULL;
    char front[80] = "";
    if (strncmp(partial, "--", 2) == 0 && equals) {
        its = find_option(options, partial + 2, (size_t)(equals - partial) - 2);
        snprintf(front, sizeof front, "%.*s=", (int)(equals - partial), partial);
    } else if (strncmp(before, "--", 2) == 0 && !strchr(before, '=')) {
        its = find_option(options, before + 2, strlen(before + 2));
    }
    if (its && its->arg && strlen(front) < sizeof front - 1)
        offer_values(front, its, partial);
    else if (partial[0] == '-')
        offer_options(options, partial);
    else if (commands && !has_command(argc - 2, argv, commands))
        for (int i = 0; commands[i].name; i++)
            offer("", commands[i].name, (int)strlen(commands[i].name), partial, commands[i].summary);
    else
        puts(":files");
}

/* ---- manual pages ---- */

/* Text for troff: '-' is a minus, a line does not begin with a control. */
static void print_text(const char *text)
{
    for (const char *c = text; *c && *c != '\v'; c++) {
        if ((*c == '.' || *c == '\'') && (c == text || c[-1] == '\n'))
            fputs("\\&", stdout);
        if (*c == '-' || *c == '\\')
            fputs(*c == '-' ? "\\-" : "\\e", stdout);
        else
            putchar(*c);
    }
}

static void print_option(const struct argp_option *o)
{
    fputs(".TP\n", stdout);
    if (o->key > ' ' && o->key < 127)
        printf("\\fB\\-%c\\fR, ", o->key);
    fputs("\\fB\\-\\-", stdout);
    print_text(o->name);
    fputs("\\fR", stdout);
    if (o->arg) {
        fputs("=\\fI", stdout);
        print_text(o->arg);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    print_text(o->doc ? o->doc : "");
    putchar('\n');
}

/* "sambaflow lm serve" as one word. */
static void print_title(const char *name)
{
    for (; *name; name++)
        putchar(*name == ' ' ? '-' : *name);
}

static void print_synopsis(const char *name, const char *arguments)
{
    const char *rest = arguments ? arguments : "";
    do {
        const int length = (int)strcspn(rest, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", length, rest);
        fputs(rest == arguments || !arguments ? ".B " : ".br\n.B ", stdout);
        print_text(name);
        fputs("\n[\\fIOPTION\\fR...] ", stdout);
        print_text(line);
        putchar('\n');
        rest += length;
    } while (*rest++);
}

static void print_manual(const struct argp *argp, const samba_command_word *commands, const char *name)
{
    const char *doc = argp->doc ? argp->doc : "", *more = commands ? NULL : strchr(doc, '\v'); /* which lists them */
    char summary[160];
    int end = 0;
    while (doc[end] && doc[end] != '\v' && !((doc[end] == '.' || doc[end] == ':') && (doc[end + 1] == ' ' || !doc[end + 1])))
        end++;
    snprintf(summary, sizeof summary, "%.*s", end, doc);
    fputs(".TH \"", stdout);
    print_title(name);
    printf("\" 1 \"\" \"sambaflow %s\"\n.SH NAME\n", samba_version());
    print_title(name);
    fputs(" \\- ", stdout);
    print_text(summary);
    fputs("\n.SH SYNOPSIS\n", stdout);
    print_synopsis(name, argp->args_doc);
    fputs(".SH DESCRIPTION\n", stdout);
    print_text(doc);
    putchar('\n');
    if (more) {
        fputs(".PP\n", stdout);
        print_text(more + 1);
        putchar('\n');
    }
    if (commands)
        fputs(".SH COMMANDS\n", stdout);
    for (int i = 0; commands && commands[i].name; i++) {
        fputs(".TP\n.B ", stdout);
        print_text(commands[i].name);
        putchar('\n');
        print_text(commands[i].summary);
        putchar('\n');
    }
    fputs(".SH OPTIONS\n", stdout);
    for (const struct argp_option *o = options_of(argp); !is_end(o); o++) {
        if (!o->name) {
            fputs(".SS ", stdout);
            print_text(o->doc ? o->doc : "");
            putchar('\n');
        } else if (!(o->flags & OPTION_HIDDEN)) {
            print_option(o);
        }
    }
    fputs(".TP\n\\fB\\-?\\fR, \\fB\\-\\-help\\fR\nPrint this list.\n", stdout);
}

void samba_command_list(char *text, size_t size, const samba_command_word *commands)
{
    enum { COLUMNS = 79 };
    size_t length = strlen(text), widest = 0;
    for (const samba_command_word *c = commands; c->name; c++)
        widest = strlen(c->name) > widest ? strlen(c->name) : widest;
    for (const samba_command_word *c = commands; c->name && length < size; c++) {
        size_t column = widest + 3;
        length += (size_t)snprintf(text + length, size - length, "\n  %-*s", (int)widest + 1, c->name);
        for (const char *word = c->summary; *word && length < size;) {
            size_t letters = strcspn(word, " ");
            if (column + 1 + letters >= COLUMNS) {
                length += (size_t)snprintf(text + length, size - length, "\n%*s", (int)widest + 3, "");
                column = widest + 3;
            }
            if (length < size)
                length += (size_t)snprintf(text + length, size - length, " %.*s", (int)letters, word);
            column += 1 + letters;
            word += letters + (word[letters] == ' ');
        }
    }
}

void samba_command_parse(const struct argp *argp, const samba_command_word *commands, int argc, char **argv, void *input)
{
    bool man = false;
    for (int i = 1; i < argc && !man; i++)
        man = strcmp(argv[i], manual) == 0;
    const bool completes = argc > 2 && strcmp(argv[argc - 2], complete) == 0;
    if (completes)
        print_completion(options_of(argp), commands, argc, argv);
    else if (man)
        print_manual(argp, has_command(argc, argv, commands) ? NULL : commands, argv[0]);
    if (completes || man)
        exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    argp_parse(argp, argc, argv, 0, NULL, input);
}
