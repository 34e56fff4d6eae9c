/* SPDX-License-Identifier: Apache-2.0
 *
 * OUTPUT/.prepare: whose it is, and how far the work has come. state.json is replaced as a whole, after what it tells of has
 * reached the disk. A file `lock` keeps a second process out. */
#include "prepare/prepare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const counts[5] = {"sequences", "tokens", "dropped_sequences", "dropped_units", "truncated_units"};

static int64_t *count_at(samba_packer *k, int i)
{
    return (int64_t *[5]){&k->sequences, &k->tokens, &k->dropped_sequences, &k->dropped_units, &k->truncated_units}[i];
}

/* What is one number each. */
enum { NUMBERS = 12 };
static const char *const number_names[NUMBERS] = {"buckets", "articles", "bad_lines", "train",  "dev",  "test",
                                                  "article", "bucket",   "in_bucket", "offset", "line", "test_bytes"};
static int64_t *number_at(samba_preparation *p, int i)
{
    int64_t *const all[NUMBERS - 1] = {&p->articles_total,   &p->bad_lines,   &p->part_articles[0], &p->part_articles[1],
                                       &p->part_articles[2], &p->article,     &p->bucket,           &p->in_bucket,
                                       &p->reader.offset,    &p->reader.line, &p->test_bytes};
    return i == 0 ? NULL : all[i - 1];
}

/* ---- saving ---- */
static json_t *json_of_packer(const samba_preparation *p, const samba_packer *k)
{
    json_t *ids = json_array(), *types = json_array(), *categories = json_array();
    json_t *object = json_pack("{s:I, s:o, s:o, s:o}", "spool_bytes", (json_int_t)k->spool_bytes, "ids", ids, "types", types,
                               "categories", categories);
    for (int64_t i = 0; i < k->filled; i++) {
        json_array_append_new(ids, json_integer(k->ids[i]));
        json_array_append_new(types, json_integer(k->types[i]));
        if (p->categories)
            json_array_append_new(categories, json_integer(k->categories[i]));
    }
    for (int i = 0; i < SAMBA_COUNT(counts); i++)
        json_object_set_new(object, counts[i], json_integer(*count_at((samba_packer *)k, i)));
    return object;
}

samba_status samba_state_save(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH], hash[32], time[32];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->fingerprint);
    snprintf(time, sizeof time, "%llu", (unsigned long long)p->input_time);
    json_t *train = json_of_packer(p, &p->packers[0]), *dev = json_of_packer(p, &p->packers[1]);
    json_t *state =
        json_pack("{s:s, s:s, s:b, s:b, s:i, s:i, s:[o, o]}", "fingerprint", hash, "input_time", time, "scanned", p->scanned,
                  "packed", p->packed, "buckets", p->buckets, "test_file", p->test_file, "packers", train, dev);
    for (int i = 1; i < NUMBERS; i++)
        json_object_set_new(state, number_names[i], json_integer(*number_at(p, i)));
    char *text = state ? json_dumps(state, JSON_COMPACT) : NULL;
    json_decref(state);
    if (!text)
        return samba_fail(p->context, SAMBA_ERROR_MEMORY, "no memory");
    const void *parts[] = {text};
    const size_t sizes[] = {strlen(text)};
    samba_prepare_path(p, path, "state.json");
    samba_status status = samba_file_write_atomic(p->context, path, parts, sizes, 1);
    free(text);
    p->saved = samba_seconds();
    return status;
}

/* ---- loading: a file that anybody may have written ---- */
static bool take_packer(samba_preparation *p, const json_t *json, samba_packer *k)
{
    const json_t *ids = json_object_get(json, "ids"), *types = json_object_get(json, "types"),
                 *categories = json_object_get(json, "categories");
    const int64_t filled = (int64_t)json_array_size(ids), bytes = json_integer_value(json_object_get(json, "spool_bytes"));
    bool fine = filled < p->o.max_seq_length && (int64_t)json_array_size(types) == filled &&
                (int64_t)json_array_size(categories) == (p->categories ? filled : 0) && bytes >= 0;
    k->filled = filled;
    k->spool_bytes = bytes;
    for (int i = 0; i < SAMBA_COUNT(counts); i++) {
        *count_at(k, i) = json_integer_value(json_object_get(json, counts[i]));
        fine &= *count_at(k, i) >= 0;
    }
    fine = fine && k->sequences <= INT64_MAX / (int64_t)samba_spool_row(p) && k->sequences * (int64_t)samba_spool_row(p) == bytes;
    for (int64_t i = 0; i < filled && fine; i++) {
        json_int_t type = json_integer_value(json_array_get(types, (size_t)i));
        fine = type >= 0 && type <= SAMBA_TOKEN_ARTICLE_END;
        k->types[i] = (uint8_t)type;
        k->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
        k->categories[i] = p->categories ? (int32_t)json_integer_value(json_array_get(categories, (size_t)i)) : -1;
    }
    return fine;
}

static bool take_numbers(samba_preparation *p, const json_t *state)
{
    const json_int_t buckets = json_integer_value(json_object_get(state, "buckets"));
    const json_int_t test_file = json_integer_value(json_object_get(state, "test_file"));
    bool fine = buckets >= 0 && buckets <= SAMBA_MOST_BUCKETS && test_file >= 0 && test_file <= p->o.num_test_splits;
    for (int i = 1; i < NUMBERS; i++) {
        *number_at(p, i) = json_integer_value(json_object_get(state, number_names[i]));
        fine &= *number_at(p, i) >= 0;
    }
    p->buckets = fine ? (int)buckets : 0;
    p->test_file = fine ? (int)test_file : 0;
    return fine && p->article <= p->articles_total &&
           p->part_articles[0] + p->part_articles[1] + p->part_articles[2] == p->articles_total;
}

/* `ours`: there is a state of this very preparation. */
static samba_status load(samba_preparation *p, bool *there, bool *ours)
{
    char path[SAMBA_PREPARE_PATH], hash[32], time[32];
    samba_prepare_path(p, path, "state.json");
    *there = access(path, F_OK) == 0;
    *ours = false;
    json_t *state = *there ? json_load_file(path, 0, NULL) : NULL;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)p->fingerprint);
    snprintf(time, sizeof time, "%llu", (unsigned long long)p->input_time);
    const char *known = json_string_value(json_object_get(state, "fingerprint"));
    const char *known_time = json_string_value(json_object_get(state, "input_time"));
    *ours = known && strcmp(known, hash) == 0 && known_time && strcmp(known_time, time) == 0;
    p->scanned = *ours && json_is_true(json_object_get(state, "scanned"));
    p->packed = *ours && json_is_true(json_object_get(state, "packed"));
    bool fine = true;
    const json_t *packers = json_object_get(state, "packers");
    if (p->scanned)
        fine = take_numbers(p, state) && take_packer(p, json_array_get(packers, 0), &p->packers[0]) &&
               take_packer(p, json_array_get(packers, 1), &p->packers[1]);
    json_decref(state);
    return fine ? SAMBA_OK : samba_fail(p->context, SAMBA_ERROR_FORMAT, "%s is damaged: remove it and begin again", path);
}

/* ---- folders ---- */
static bool is_ours(const char *name)
{
    static const char *const patterns[] = {"train_*_of_*.hdf5", "dev_*_of_*.hdf5", "test_*_of_*.jsonl", "test_*_of_*.txt",
                                           "metadata.yaml"};
    bool found = false;
    for (int i = 0; i < SAMBA_COUNT(patterns); i++)
        found |= fnmatch(patterns[i], name, 0) == 0;
    return found;
}

/* Removes the files of a folder that `all` or is_ours says; then the folder, where it is to go and is empty. */
static void clear(const char *folder, bool all)
{
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        if (all ? entry->d_name[0] != '.' && strcmp(entry->d_name, "state.json") != 0 : is_ours(entry->d_name))
            (void)unlinkat(dirfd(listing), entry->d_name, 0);
    if (!listing)
        return;
    if (all)
        (void)unlinkat(dirfd(listing), "state.json", 0); /* the last one, which says whose they are */
    closedir(listing);
    if (all)
        (void)rmdir(folder);
}

static bool holds_others(const samba_preparation *p)
{
    bool others = false;
    DIR *listing = opendir(p->output);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        others |= strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, ".prepare") != 0;
    if (listing)
        closedir(listing);
    return others;
}

/* What a finished preparation of this kind has written: its counts, by their names in metadata.yaml. */
static bool find_done(samba_preparation *p, samba_prepare_result *result)
{
    char path[SAMBA_PREPARE_PATH], line[64];
    void *data;
    size_t size;
    snprintf(path, sizeof path, "%.4000s/checksums.txt", p->output);
    if (access(path, F_OK) != 0)
        return false;
    snprintf(path, sizeof path, "%.4000s/metadata.yaml", p->output);
    if (samba_file_read_start(p->context, path, 1 << 16, &data, &size, &(size_t){0}) != SAMBA_OK)
        return false;
    char *text = samba_calloc(p->context, size + 1);
    if (text)
        memcpy(text, data, size);
    samba_free(p->context, data, size);
    snprintf(line, sizeof line, "\nfingerprint: \"%016llx\"\n", (unsigned long long)p->fingerprint);
    bool done = text && strstr(text, line);
    for (int i = 0; i < SAMBA_RESULT_COUNTS && done; i++) {
        snprintf(line, sizeof line, "\n%s: ", samba_result_names[i]);
        const char *at = strstr(text, line);
        *samba_result_at(result, i) = at ? strtoll(at + strlen(line), NULL, 10) : 0;
    }
    if (text)
        samba_free(p->context, text, size + 1);
    return done;
}

static void overwrite(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH];
    snprintf(path, sizeof path, "%.4000s/checksums.txt", p->output); /* the first one: without it nothing is finished */
    (void)unlink(path);
    clear(p->output, false);
    snprintf(path, sizeof path, "%.4000s/tokenizer", p->output);
    for (int i = 0; i < SAMBA_TOKENIZER_FILES; i++) {
        snprintf(path, sizeof path, "%.4000s/tokenizer/%s", p->output, samba_tokenizer_files[i]);
        (void)unlink(path);
    }
}

static samba_status take_lock(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH];
    samba_prepare_path(p, path, "lock");
    p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (p->lock < 0)
        return samba_prepare_fail(p, "write", path);
    if (flock(p->lock, LOCK_EX | LOCK_NB) == 0)
        return SAMBA_OK;
    return samba_fail(p->context, SAMBA_ERROR_STATE, "\"%s\": another process prepares into this folder", p->output);
}

static samba_status check_name(samba_preparation *p)
{
    char path[SAMBA_PREPARE_PATH];
    if (strlen(p->output) > 3900 || strlen(p->tokenizer_path) > 3900)
        return samba_fail(p->context, SAMBA_ERROR_ARGUMENT, "the path of the output or of the tokenizer is too long");
    snprintf(path, sizeof path, "%.4000s/.prepare", p->output);
    memcpy(p->work, path, sizeof path);
    return SAMBA_OK;
}

void samba_state_end(const samba_preparation *p) { clear(p->work, true); }

samba_status samba_state_begin(samba_preparation *p, bool *done, samba_prepare_result *result)
{
    bool there, ours;
    *done = false;
    SAMBA_TRY(check_name(p));
    SAMBA_TRY(samba_make_directories(p->context, p->output));
    const bool working = access(p->work, F_OK) == 0;
    if (working)
        SAMBA_TRY(take_lock(p));
    SAMBA_TRY(load(p, &there, &ours));
    p->resumed = ours;
    /* checksums.txt is the last to appear: from then on the work folder may be partly removed */
    if ((ours || (!there && !p->o.overwrite_output_path)) && find_done(p, result)) {
        *done = p->resumed = true;
        if (working)
            samba_state_end(p);
        return SAMBA_OK;
    }
    if (!ours && p->o.overwrite_output_path)
        overwrite(p);
    else if (!ours && (there || holds_others(p)))
        return samba_fail(p->context, SAMBA_ERROR_STATE,
                          there ? "\"%s\" holds a preparation that was interrupted, of another input or with other options: make "
                                  "the same call, or give overwrite_output_path (--overwrite-output-path)"
                                : "\"%s\" is not empty: give another folder, or overwrite_output_path (--overwrite-output-path)",
                          p->output);
    SAMBA_TRY(samba_make_directories(p->context, p->work));
    if (!working)
        SAMBA_TRY(take_lock(p));
    return ours ? SAMBA_OK : samba_state_save(p);
}
