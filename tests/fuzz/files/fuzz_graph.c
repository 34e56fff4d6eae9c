/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a graph's text, with some literals beside it: what is read is printed, and the print read back to the same print; so
 * is the print that leaves literals beside it. */
#include "files.h"
#include "graph/graph.h"

#include <sambaflow/graph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The print that leaves literals beside it says the same. */
static void read_beside(samba_context *context, const samba_graph *graph)
{
    samba_arena arena;
    char *text;
    int32_t count;
    uint32_t *numbers;
    samba_graph *again;
    samba_arena_init(&arena, context);
    if (samba_graph_print_beside(graph, &arena, &text, &count, &numbers) != SAMBA_OK)
        abort();
    samba_literal *literals = calloc((size_t)count + 1, sizeof *literals);
    for (int32_t i = 0; literals && i < count; i++)
        literals[i] = (samba_literal){samba_graph_blob_at(graph, numbers[i])->data, samba_graph_blob_at(graph, numbers[i])->size};
    if (!literals || samba_graph_parse_beside(context, text, count, literals, &again) != SAMBA_OK ||
        samba_graph_hash(graph) != samba_graph_hash(again)) {
        fprintf(stderr, "a graph's text is not read back with its literals: %s\n%s\n", samba_error_message(context), text);
        abort();
    }
    samba_graph_free(again);
    samba_text_free(context, text);
    samba_arena_free(&arena);
    free(literals);
}

/* The print of what the text says; NULL: it is no graph. */
static char *print_of(samba_context *context, const char *text)
{
    static const float numbers[100] = {1, 2, 3};
    static const samba_literal literals[] = {{numbers, sizeof numbers}, {numbers, 4}, {NULL, 0}};
    samba_graph *graph;
    char *print = NULL;
    if (samba_graph_parse_beside(context, text, 3, literals, &graph) != SAMBA_OK)
        return NULL;
    read_beside(context, graph);
    if (samba_graph_print(graph, &print) != SAMBA_OK)
        print = NULL;
    samba_graph_free(graph);
    return print;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    samba_context *context;
    char *text = malloc(size + 1);
    if (!text || samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    char *once = print_of(context, text), *twice = once ? print_of(context, once) : NULL;
    if (once && (!twice || strcmp(once, twice) != 0)) {
        fprintf(stderr, "a graph's print is not read back: %s\n%s\n%s\n", samba_error_message(context), once, twice ? twice : "");
        abort();
    }
    samba_fuzz_accepted += once != NULL;
    samba_text_free(context, once);
    samba_text_free(context, twice);
    samba_context_free(context);
    free(text);
    return 0;
}

/* A line from elsewhere in the text, or a number that is another one, as often as any bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static const char *const words[] = {"0",
                                        "-1",
                                        "1",
                                        "2",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "4294967296",
                                        "inf",
                                        "nan",
                                        "1e308",
                                        "[]",
                                        "[0]",
                                        "[1,1]",
                                        "[2,3]",
                                        "float64",
                                        "bool",
                                        "int64",
                                        "bfloat16",
                                        "%0",
                                        "%1",
                                        "%999",
                                        "@BCKWD",
                                        "\"\"",
                                        "&0",
                                        "&1",
                                        "&3"};
    uint64_t state = seed;
    if (size == 0 || samba_fuzz_next(&state) % 3 == 0)
        return LLVMFuzzerMutate(data, size, room);
    size_t at = samba_fuzz_next(&state) % size, end, length;
    if (samba_fuzz_next(&state) % 2 == 0) { /* a word */
        const char *word = words[samba_fuzz_next(&state) % (sizeof words / sizeof *words)];
        while (at > 0 && !strchr(" =,[]:\n", data[at - 1]))
            at--;
        for (end = at; end < size && !strchr(" =,[]:\n", data[end]);)
            end++;
        length = strlen(word);
        if (size - (end - at) + length > room)
            return size;
        memmove(data + at + length, data + end, size - end);
        memcpy(data + at, word, length);
        return size - (end - at) + length;
    }
    while (at > 0 && data[at - 1] != '\n') /* a line: away, or again */
        at--;
    for (end = at; end < size && data[end] != '\n';)
        end++;
    end += end < size;
    length = end - at;
    if (samba_fuzz_next(&state) % 2 == 0) {
        memmove(data + at, data + end, size - end);
        return size - length;
    }
    if (size + length > room)
        return size;
    memmove(data + end + length, data + end, size - end);
    memmove(data + end, data + at, length);
    return size + length;
}

/* Those are the graphs of tests/fuzz/found, and one with literals beside it. */
void samba_fuzz_seeds(const char *folder)
{
    static const char text[] =
        "graph \"g\"\n%0 = literal dtype=float32 shape=[10,10] data=&0 : float32[10,10]\n"
        "%1 = literal dtype=float32 shape=[] data=&1 : float32[]\n%2 = add %0 %1 : float32[10,10] @FWD\noutput \"y\" %2 @FWD\n";
    char path[4096];
    snprintf(path, sizeof path, "%s/literals.txt", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) == EOF || fclose(file) != 0)
        abort();
}
