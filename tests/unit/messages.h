/* SPDX-License-Identifier: Apache-2.0
 *
 * What refused calls say, in a text beside the tests: messages/NAME.txt is test_NAME.c's, to be read from top to bottom. A part
 * has its name in column 0, indented by 4 what is refused (a line or more), by 8 the status and the sentence:
 *
 *     making_wrongly
 *         samba_tensor_new(context, "n", SAMBA_FLOAT32, 2, NULL, &t)
 *             argument: ...without a shape...
 *
 * says(call) looks up its own call in the part of its function's name; replay(part, call) gives all that a part has to a
 * function, one after the other. "..." stands for anything, FOLDER for the scratch folder, a '|' before a line for nothing.
 * every_message_said, the last test of such a program, fails for what no test asked for. */
#ifndef SAMBA_TEST_MESSAGES_H
#define SAMBA_TEST_MESSAGES_H

#include "harness.h"

typedef struct message {
    char part[64], *given, *sentence; /* the sentence with its status before it; "ok" where nothing is refused */
    int said;
} message;
static message messages[256];
static int message_count;

/* Joined to what is there already; to be freed. */
static inline char *add_line(char *text, const char *line)
{
    size_t length = text ? strlen(text) + 1 : 0;
    line += *line == '|';
    text = realloc(text, length + strlen(line) + 1);
    assert_non_null(text);
    if (length > 0)
        text[length - 1] = '\n';
    strcpy(text + length, line);
    return text;
}

static inline void read_messages(const char *source)
{
    char path[512], line[4096], part[64] = "";
    if (message_count > 0)
        return;
    const char *name = strstr(source, "test_") + strlen("test_");
    snprintf(path, sizeof path, "%s/messages/%.*s.txt", SAMBA_TEST_FOLDER, (int)strcspn(name, "."), name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is not there", path);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        message *last = &messages[message_count > 0 ? message_count - 1 : 0];
        if (strncmp(line, "        ", 8) == 0) {
            last->sentence = add_line(NULL, line + 8);
        } else if (strncmp(line, "    ", 4) == 0) {
            if (message_count == 0 || last->sentence) {
                assert_true(message_count < LENGTH(messages));
                last = &messages[message_count++];
                snprintf(last->part, sizeof last->part, "%s", part);
            }
            last->given = add_line(last->given, line + 4);
        } else if (*line && *line != '#') {
            snprintf(part, sizeof part, "%.63s", line);
        }
    }
    fclose(file);
}

/* Whether two spellings of a call differ in spaces alone. */
static inline bool same_call(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, " ");
        b += strspn(b, " ");
        if (*a != *b || !*a)
            return *a == *b;
    }
}

/* "..." in the pattern stands for anything. */
static inline bool sentence_fits(const char *pattern, const char *sentence)
{
    const char *dots = strstr(pattern, "...");
    if (!dots)
        return strcmp(pattern, sentence) == 0;
    size_t before = (size_t)(dots - pattern);
    if (strncmp(pattern, sentence, before) != 0)
        return false;
    for (sentence += before;; sentence++) {
        if (sentence_fits(dots + 3, sentence))
            return true;
        if (!*sentence)
            return false;
    }
}

/* Whether the message was expected; if not, it is printed. */
static inline bool check_message(message *m, samba_context *of, samba_status status)
{
    char sentence[2048];
    int used = snprintf(sentence, sizeof sentence, "%s", samba_status_name(status));
    if (status != SAMBA_OK)
        snprintf(sentence + used, sizeof sentence - (size_t)used, ": %s", samba_error_message(of));
    for (char *at; (at = strstr(sentence, folder));) {
        memcpy(at, "FOLDER", 6);
        memmove(at + 6, at + strlen(folder), strlen(at + strlen(folder)) + 1);
    }
    m->said++;
    size_t named = strcspn(m->sentence, ":"); /* the status, and what comes behind ": " */
    if (strncmp(sentence, m->sentence, named) == 0 && sentence[named] == m->sentence[named] &&
        (status == SAMBA_OK || sentence_fits(m->sentence + named + 2, sentence + named + 2)))
        return true;
    print_error("%s: %s\n    %s\nexpected\n    %s\n", m->part, m->given, sentence, m->sentence);
    return false;
}

#define says(call) says_at(context, (call), #call, __func__, __FILE__, __LINE__)
#define says_in(of, call) says_at((of), (call), #call, __func__, __FILE__, __LINE__)
static inline void says_at(samba_context *of, samba_status status, const char *call, const char *part, const char *file, int line)
{
    message *found = NULL;
    read_messages(file);
    for (int i = 0; i < message_count; i++) /* of equal calls the one whose turn it is */
        if (strcmp(messages[i].part, part) == 0 && same_call(messages[i].given, call) &&
            (!found || messages[i].said < found->said))
            found = &messages[i];
    if (!found)
        print_error("%s: %s\n    %s: %s\nis not in the text\n", part, call, samba_status_name(status), samba_error_message(of));
    if (!found || !check_message(found, of, status))
        _fail(file, line);
}

#define replay(part, call) replay_at((part), (call), __FILE__, __LINE__)
static inline void replay_at(const char *part, samba_status (*call)(const char *text), const char *file, int line)
{
    int seen = 0, wrong = 0;
    read_messages(file);
    for (int i = 0; i < message_count; i++)
        if (strcmp(messages[i].part, part) == 0) {
            wrong += !check_message(&messages[i], context, call(messages[i].given));
            seen++;
        }
    if (seen == 0 || wrong > 0)
        _fail(file, line);
}

static inline void every_message_said(void **unused)
{
    (void)unused;
    message first = {0};
    for (int i = 0; i < message_count; i++) {
        if (!messages[i].said && !first.given)
            first = messages[i];
        else
            free(messages[i].given);
        free(messages[i].sentence);
    }
    message_count = 0;
    if (first.given)
        fail_msg("%s: no test asked for what is there for %s", first.part, first.given);
}

#endif
