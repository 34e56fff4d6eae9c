/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences of tokens from a path. A folder has parts, train_1_of_4.hdf5 and so on, and dev_1_of_1.hdf5 to test with; all parts
 * must be there. A file of tensors, and a text, give their last sequences to the test. Each file has `input_ids` and perhaps
 * `token_type_ids`, integers of one shape (sequences, length), and all have the same length. The files' tensors stay in memory as
 * they are; a row is read as int32 where it is asked for. */
#include "cli/lm.h"
#include "data/data.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_LENGTH = 128 };

static bool is_of(const char *path, const char *const *endings)
{
    while (*endings && !samba_ends_with(path, *endings))
        endings++;
    return *endings != NULL;
}

static const char *const hdf5_endings[] = {".hdf5", ".h5", NULL};
static const char *const tensor_endings[] = {".hdf5", ".h5", ".npz", ".safetensors", NULL};
static const char *const text_endings[] = {".txt", ".text", ".md", NULL};

/* ---- files of tensors ---- */

static bool is_rows(const samba_tensor *tensor)
{
    return samba_tensor_rank(tensor) == 2 && !samba_dtype_is_floating_point(samba_tensor_dtype(tensor)) &&
           samba_tensor_dtype(tensor) != SAMBA_BOOL && samba_tensor_is_contiguous(tensor);
}

static samba_status take_tensor(samba_context *context, const char *path, const char *name, samba_tensor_list *list,
                                samba_tensor **tensor)
{
    for (int i = 0; i < list->count && !*tensor; i++)
        if (list->tensors[i] && strcmp(samba_tensor_name(list->tensors[i]), name) == 0) {
            *tensor = list->tensors[i];
            list->tensors[i] = NULL;
        }
    if (*tensor && !is_rows(*tensor))
        return samba_fail(context, SAMBA_ERROR_SHAPE, "%s: '%s' is %s %s: integers of shape (sequences, length) are expected",
                          path, name, samba_dtype_name(samba_tensor_dtype(*tensor)),
                          SAMBA_SHAPE(samba_tensor_rank(*tensor), samba_tensor_shape(*tensor)));
    return SAMBA_OK;
}

static samba_status take_tensors(samba_context *context, samba_tensor_list *list, samba_lm_file *file)
{
    SAMBA_TRY(take_tensor(context, file->path, "input_ids", list, &file->ids));
    SAMBA_TRY(take_tensor(context, file->path, "token_type_ids", list, &file->types));
    if (!file->ids)
        return samba_fail(context, SAMBA_ERROR_NAME, "%s: there is no 'input_ids', the tokens of the sequences", file->path);
    const int64_t *shape = samba_tensor_shape(file->ids);
    if (file->types && !samba_shape_equal(2, shape, 2, samba_tensor_shape(file->types)))
        return samba_fail(context, SAMBA_ERROR_SHAPE, "%s: 'token_type_ids' is %s and 'input_ids' %s: one of each is expected",
                          file->path, SAMBA_SHAPE(2, samba_tensor_shape(file->types)), SAMBA_SHAPE(2, shape));
    file->count = shape[0];
    return SAMBA_OK;
}

/* HDF5 is read a dataset at a time; without types all is completion, as elsewhere. */
static samba_status read_hdf5(samba_context *context, samba_lm_file *file, samba_tensor_list *list)
{
    SAMBA_TRY(samba_tensor_list_new(context, 2, list));
    SAMBA_TRY(samba_hdf5_read(context, file->path, "input_ids", &list->tensors[0]));
    samba_status status = samba_hdf5_read(context, file->path, "token_type_ids", &list->tensors[1]);
    return status == SAMBA_OK || status == SAMBA_ERROR_NAME ? take_tensors(context, list, file) : status;
}

static samba_status read_tensors(samba_context *context, samba_lm_file *file)
{
    samba_tensor_list list = {0};
    samba_status status;
    if (is_of(file->path, hdf5_endings)) {
        status = read_hdf5(context, file, &list);
    } else {
        SAMBA_TRY(samba_tensors_read(context, file->path, "input_ids", &list));
        status = take_tensors(context, &list, file);
    }
    samba_tensor_list_free(context, &list);
    return status;
}

/* ---- a folder of parts ---- */

typedef struct part {
    const char *path;
    bool test;
    int number, of;
} part;

static bool parse_part(const char *name, part *p)
{
    char ending[16];
    int end = 0;
    p->test = strncmp(name, "dev_", 4) == 0;
    if (!p->test && strncmp(name, "train_", 6) != 0)
        return false;
    return sscanf(strchr(name, '_') + 1, "%9d_of_%9d%15s%n", &p->number, &p->of, ending, &end) == 3 &&
           !(strchr(name, '_') + 1)[end] && p->number >= 0 && is_of(name, tensor_endings) && ending[0] == '.' &&
           !strchr(ending + 1, '.');
}

static int compare_parts(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->test != y->test ? x->test - y->test : (x->number > y->number) - (x->number < y->number);
}

/* The parts of a folder, in `arena`; which parts are there need not be all. */
static samba_status list_parts(samba_arena *arena, const char *folder, part **parts, int *count)
{
    samba_context *context = arena->context;
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    int room = 0;
    *count = 0;
    if (!directory)
        return samba_fail(context, SAMBA_ERROR_FILE, "the folder '%s' cannot be read: %s", folder, strerror(errno));
    part p;
    while ((entry = readdir(directory)))
        room += parse_part(entry->d_name, &p);
    samba_status status = SAMBA_ROOM(arena, *parts, room + 1);
    rewinddir(directory);
    while (status == SAMBA_OK && *count < room && (entry = readdir(directory))) {
        samba_text text;
        char *path;
        if (!parse_part(entry->d_name, &p))
            continue;
        status = samba_text_begin(&text, context, "%s/%s", folder, entry->d_name);
        if (status == SAMBA_OK)
            status = samba_text_keep(&text, arena, &path);
        samba_text_clear(&text);
        if (status == SAMBA_OK) {
            p.path = path;
            (*parts)[(*count)++] = p;
        }
    }
    closedir(directory);
    if (status == SAMBA_OK)
        qsort(*parts, (size_t)*count, sizeof **parts, compare_parts);
    return status;
}

/* Those of one kind, `count` of them: all of one split, each once. */
static samba_status check_parts(samba_context *context, const char *folder, const part *parts, int count)
{
    const char *kind = count > 0 && parts[0].test ? "dev" : "train";
    for (int i = 0; i < count; i++) {
        if (parts[i].of != parts[0].of)
            return samba_fail(context, SAMBA_ERROR_FORMAT,
                              "the folder '%s' has parts of two splits, %s_%d_of_%d and %s_%d_of_%d: remove those of one", folder,
                              kind, parts[0].number, parts[0].of, kind, parts[i].number, parts[i].of);
        if (i > 0 && parts[i].number == parts[i - 1].number)
            return samba_fail(context, SAMBA_ERROR_FORMAT, "the folder '%s' has two files %s_%d_of_%d: remove one", folder, kind,
                              parts[i].number, parts[i].of);
    }
    return count == 0 || count == parts[0].of
               ? SAMBA_OK
               : samba_fail(context, SAMBA_ERROR_FORMAT, "the folder '%s' has %d of the %d parts %s_1_of_%d, ...: all are needed",
                            folder, count, parts[0].of, kind, parts[0].of);
}

static samba_status read_folder(samba_lm_sequences *s, const char *folder)
{
    part *parts;
    int count, train = 0;
    SAMBA_TRY(list_parts(&s->arena, folder, &parts, &count));
    while (train < count && !parts[train].test)
        train++;
    if (train == 0)
        return samba_fail(s->context, SAMBA_ERROR_FILE,
                          "the folder '%s' has no train_1_of_N.hdf5 (or .npz, .safetensors): prepared data is expected", folder);
    SAMBA_TRY(check_parts(s->context, folder, parts, train));
    SAMBA_TRY(check_parts(s->context, folder, parts + train, count - train));
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->files, count));
    for (int i = 0; i < count; i++) {
        s->files[i] = (samba_lm_file){.path = parts[i].path, .test = parts[i].test};
        s->file_count++;
        SAMBA_TRY(read_tensors(s->context, &s->files[i]));
    }
    return SAMBA_OK;
}

/* ---- one file ---- */

static samba_status read_file(samba_lm_sequences *s, const char *path, const char *model, int64_t length, int64_t most)
{
    char *kept;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->files, 1));
    SAMBA_TRY(samba_arena_copy(&s->arena, path, &kept));
    s->files[0] = (samba_lm_file){.path = kept};
    s->file_count = 1;
    if (is_of(path, tensor_endings))
        return read_tensors(s->context, &s->files[0]);
    if (!is_of(path, text_endings))
        return samba_fail(
            s->context, SAMBA_ERROR_ARGUMENT,
            "--data '%s': a folder of prepared files, a file of tensors (.hdf5, .npz, .safetensors) or a text (.txt, "
            ".text, .md) is expected",
            path);
    if (length == 0)
        length = most > 0 && most < TEXT_LENGTH ? most : TEXT_LENGTH;
    return samba_lm_text_read(s->context, kept, model, length, &s->files[0]);
}

/* ---- the whole ---- */

/* All files have the length of the first, and it is the one that was asked for. */
static samba_status check_lengths(samba_lm_sequences *s, int64_t length, int64_t most)
{
    s->length = samba_tensor_shape(s->files[0].ids)[1];
    for (int i = 0; i < s->file_count; i++) {
        samba_lm_file *file = &s->files[i];
        const int64_t its = samba_tensor_shape(file->ids)[1];
        if (its != s->length)
            return samba_fail(s->context, SAMBA_ERROR_SHAPE,
                              "%s has sequences of %lld tokens and %s of %lld: one length is needed", s->files[0].path,
                              (long long)s->length, file->path, (long long)its);
        file->first = s->count;
        s->count += file->count;
        s->train_count += file->test ? 0 : file->count;
    }
    if (s->length < 2)
        return samba_fail(s->context, SAMBA_ERROR_SHAPE, "%s: sequences of %lld tokens have no successor to learn",
                          s->files[0].path, (long long)s->length);
    if (length > 0 && s->length != length)
        return samba_fail(s->context, SAMBA_ERROR_SHAPE,
                          "--length %lld: the sequences of %s have %lld tokens: leave it out, or prepare the data for it",
                          (long long)length, s->files[0].path, (long long)s->length);
    if (most > 0 && s->length > most)
        return samba_fail(s->context, SAMBA_ERROR_SHAPE,
                          "%s: the sequences have %lld tokens and the model has learned %lld positions: prepare shorter ones",
                          s->files[0].path, (long long)s->length, (long long)most);
    return SAMBA_OK;
}

static samba_status read_path(samba_lm_sequences *s, const char *path, const char *model, int64_t length, int64_t most,
                              double fraction)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return samba_fail(s->context, SAMBA_ERROR_FILE, "--data '%s': %s", path, strerror(errno));
    const bool folder = S_ISDIR(info.st_mode);
    if (folder && fraction >= 0)
        return samba_fail(s->context, SAMBA_ERROR_ARGUMENT,
                          "--eval-fraction is of a single file: the folder '%s' has files dev_... to test with, or none", path);
    SAMBA_TRY(folder ? read_folder(s, path) : read_file(s, path, model, length, most));
    SAMBA_TRY(check_lengths(s, length, most));
    if (folder)
        return SAMBA_OK;
    const double share = fraction < 0 ? SAMBA_LM_EVAL_FRACTION : fraction;
    int64_t tests = (int64_t)((double)s->count * share);
    tests = tests == 0 && share > 0 && s->count > 1 ? 1 : tests;
    s->train_count = s->count - tests;
    return SAMBA_OK;
}

samba_status samba_lm_sequences_read(samba_context *context, const char *path, const char *model, int64_t length, int64_t most,
                                     double fraction, samba_lm_sequences *sequences)
{
    *sequences = (samba_lm_sequences){.context = context};
    samba_arena_init(&sequences->arena, context);
    samba_status status = read_path(sequences, path, model, length, most, fraction);
    if (status != SAMBA_OK)
        samba_lm_sequences_free(sequences);
    return status;
}

void samba_lm_sequences_free(samba_lm_sequences *s)
{
    if (!s->context)
        return;
    for (int i = 0; i < s->file_count; i++) {
        samba_tensor_free(s->files[i].ids);
        samba_tensor_free(s->files[i].types);
    }
    samba_arena_free(&s->arena);
    *s = (samba_lm_sequences){0};
}

/* An element of a row of integers; out of int32 it is INT32_MIN, which is no token and no type. */
static int32_t element(const samba_tensor *tensor, int64_t at)
{
    const samba_dtype dtype = samba_tensor_dtype(tensor);
    int64_t value = samba_load_int64(dtype, (const char *)samba_tensor_data(tensor) + samba_dtype_size(dtype) * (size_t)at);
    return value > INT32_MAX || value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

const samba_lm_file *samba_lm_sequences_file(const samba_lm_sequences *s, int64_t row)
{
    int low = 0, high = s->file_count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (s->files[middle].first <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return &s->files[low];
}

void samba_lm_sequences_row(const samba_lm_sequences *s, int64_t row, int32_t *ids, int32_t *types)
{
    const samba_lm_file *file = samba_lm_sequences_file(s, row);
    const int64_t begin = (row - file->first) * s->length;
    for (int64_t i = 0; i < s->length; i++) {
        ids[i] = element(file->ids, begin + i);
        types[i] = file->types ? element(file->types, begin + i) : SAMBA_LM_COMPLETION;
    }
}
