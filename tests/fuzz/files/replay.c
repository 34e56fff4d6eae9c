/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a harness without libFuzzer, built by any compiler: over inputs that the harness makes to begin with, stored ones, and
 * changed copies of them, others every time. What it makes must be read without an error; what is stored too, in harnesses that
 * make some, but for what was found (found-NAME).
 *
 *   fuzz_NAME [--changes N] [--seed S] [--keep FILE] [FILE_OR_FOLDER ...]
 *   fuzz_NAME --seeds FOLDER
 *
 * --keep: each changed input is written there before it is run, so that the last one is what broke it. --seeds:
 * writes inputs to begin with. */
#include "../../seed.h"
#include "files.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 1 << 20 };
static uint64_t state;

typedef struct input {
    char *name;
    bool whole; /* is read without an error */
    uint8_t *data;
    size_t size;
} input;
static input *inputs;
static size_t input_count;

static void stop(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

/* 1 for half of the inputs: what is changed in many places is refused for the first of them. */
static uint64_t few(void) { return samba_fuzz_next(&state) % 2 ? 1 : 1 + samba_fuzz_next(&state) % 4; }

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
    for (uint64_t changes = few(); changes > 0 && size > 0; changes--) {
        size_t at = samba_fuzz_next(&state) % size, count = 1 + samba_fuzz_next(&state) % 8;
        switch (samba_fuzz_next(&state) % 5) {
        case 0: data[at] ^= (uint8_t)(1u << samba_fuzz_next(&state) % 8); break;
        case 1: data[at] = (uint8_t)samba_fuzz_next(&state); break;
        case 2: /* fewer */
            count = count < size - at ? count : size - at;
            memmove(data + at, data + at + count, size - at - count);
            size -= count;
            break;
        case 3: /* some of it again */
            count = count < room - size ? count : room - size;
            count = count < size - at ? count : size - at;
            memmove(data + at + count, data + at, size - at);
            size += count;
            break;
        default: memset(data + at, (int)(samba_fuzz_next(&state) % 2 * 0xff), count < size - at ? count : size - at);
        }
    }
    return size;
}

static void add_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    FILE *file = fopen(path, "rb");
    input *more = realloc(inputs, (input_count + 1) * sizeof *inputs);
    if (!file || !more)
        stop("cannot be read", path);
    inputs = more;
    uint8_t *data = malloc(ROOM);
    if (!data)
        stop("no memory", path);
    const size_t size = fread(data, 1, ROOM, file);
    inputs[input_count++] = (input){strdup(name), strncmp(name, "found-", 6) != 0, data, size};
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void add(const char *path)
{
    struct stat facts;
    struct dirent **entries;
    if (stat(path, &facts) != 0)
        stop("is not there", path);
    if (!S_ISDIR(facts.st_mode)) {
        add_file(path);
        return;
    }
    int count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            add_file(name);
        free(entries[i]);
    }
    free(entries);
}

static void run(const uint8_t *data, size_t size, const char *keep)
{
    FILE *file = keep ? fopen(keep, "wb") : NULL;
    if (file) {
        fwrite(data, 1, size, file);
        fclose(file);
    }
    uint8_t *own = malloc(size ? size : 1); /* of this very size, so that what reads behind it is seen */
    if (!own)
        stop("no memory", "replay");
    memcpy(own, data, size);
    LLVMFuzzerTestOneInput(own, size);
    free(own);
}

/* Inputs to begin with, of the library as it is now; false where the harness makes none. */
static bool add_fresh(void)
{
    char folder[] = "/tmp/sambaflow-seeds-XXXXXX", path[4096];
    struct dirent **entries;
    const size_t before = input_count;
    if (!mkdtemp(folder))
        stop("cannot be made", folder);
    samba_fuzz_seeds(folder);
    add(folder);
    const int count = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        unlink(path);
        free(entries[i]);
    }
    free(entries);
    rmdir(folder);
    return input_count > before;
}

/* One that is stale was written by an older library: changed copies of it are refused for that, and test nothing. */
static void check_whole(const input *one)
{
    const size_t before = samba_fuzz_accepted;
    run(one->data, one->size, NULL);
    if (one->whole && samba_fuzz_accepted == before)
        stop("is refused: tests/fuzz/make_corpus.sh makes it anew", one->name);
}

int main(int argc, char **argv)
{
    uint64_t changes = 0, seed = random_seed();
    const char *keep = NULL;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--changes") == 0)
            changes = strtoull(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--keep") == 0)
            keep = argv[++i];
        else if (more && strcmp(argv[i], "--seeds") == 0) {
            samba_fuzz_seeds(argv[++i]);
            return 0;
        } else
            add(argv[i]);
    }
    const bool makes = add_fresh();
    if (input_count == 0)
        stop("give files or folders of inputs", argv[0]);
    state = seed;
    for (size_t i = 0; i < input_count; i++)
        if (makes)
            check_whole(&inputs[i]);
        else
            run(inputs[i].data, inputs[i].size, NULL);
    printf("%zu inputs, %zu read; %llu changed ones from --seed %llu\n", input_count, samba_fuzz_accepted,
           (unsigned long long)changes, (unsigned long long)seed);
    fflush(stdout);
    samba_fuzz_accepted = 0;
    uint8_t *data = malloc(ROOM);
    if (!data)
        stop("no memory", argv[0]);
    for (uint64_t i = 0; i < changes; i++) {
        const input *from = &inputs[samba_fuzz_next(&state) % input_count];
        size_t size = from->size;
        memcpy(data, from->data, size);
        for (uint64_t times = few(); times > 0; times--)
            size = LLVMFuzzerCustomMutator(data, size, ROOM, (unsigned)samba_fuzz_next(&state));
        run(data, size, keep);
    }
    printf("%zu of the changed ones were read\n", samba_fuzz_accepted);
    free(data);
    for (size_t i = 0; i < input_count; i++) {
        free(inputs[i].name);
        free(inputs[i].data);
    }
    free(inputs);
    return 0;
}
