/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a file of tensors: the first says the kind, .npy, .npz, .safetensors, IDX, packed IDX, a folder of safetensors with
 * their index, whose length is the next two bytes, CSV or JSON lines. */
#include "files.h"
#include "data/data.h"
#include <sambaflow/source.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KINDS = 8, SHARDS = 5, TEXTS = 6 };
static const char *const names[KINDS] = {
    "x.npy", "x.npz", "x.safetensors", "x-idx3-ubyte", "x-idx3-ubyte.gz", "model.safetensors.index.json", "x.csv", "x.jsonl"};

/* A field of one column and one of any two that begin with v. */
static samba_status read_columns(samba_context *context, const char *path, samba_tensor_list *list)
{
    const samba_column columns[] = {{.field = {"n", SAMBA_INT64, 0, {0}}},
                                    {.field = {"v", SAMBA_FLOAT32, 1, {2}}, .from = "v*", .scale = 0.5}};
    samba_file_options options = samba_file_defaults();
    options.columns = columns;
    options.column_count = 2;
    options.fill_missing = true;
    return samba_columns_read(context, path, &options, list);
}

static void write_file(const char *folder, const char *name, const uint8_t *data, size_t size, char path[512])
{
    snprintf(path, 512, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[64], path[512], part[512] = "";
    samba_context *context;
    samba_tensor_list list;
    if (size < 3)
        return 0;
    const char *temporary = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/samba-fuzz-%d", temporary, (int)getpid());
    mkdir(folder, 0700);
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    int kind = data[0] % KINDS;
    size_t index = data[1] | (size_t)data[2] << 8, rest = size - 3;
    if (kind == SHARDS) {
        index = index < rest ? index : rest;
        write_file(folder, names[kind], data + 3, index, path);
        write_file(folder, "a.safetensors", data + 3 + index, rest - index, part);
    } else {
        write_file(folder, names[kind], data + 1, size - 1, path);
    }
    samba_status status = kind == SHARDS  ? samba_weights_read(context, folder, &list)
                          : kind >= TEXTS ? read_columns(context, path, &list)
                                          : samba_tensors_read(context, path, "x", &list);
    volatile uint8_t sum = 0;
    for (int i = 0; status == SAMBA_OK && i < list.count; i++) { /* what was read is there */
        const uint8_t *bytes = samba_tensor_data(list.tensors[i]);
        size_t count = (size_t)samba_tensor_numel(list.tensors[i]) * samba_dtype_size(samba_tensor_dtype(list.tensors[i]));
        for (size_t k = 0; k < count; k++)
            sum = (uint8_t)(sum + bytes[k]);
    }
    samba_fuzz_accepted += status == SAMBA_OK;
    if (status == SAMBA_OK)
        samba_tensor_list_free(context, &list);
    samba_context_free(context);
    unlink(path);
    if (part[0])
        unlink(part);
    rmdir(folder);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(data, size, room);
}

/* ---- inputs to begin with ---- */
static void add_seed(const char *folder, int kind, const char *from)
{
    char path[512];
    uint8_t *data = calloc(1, 1 << 20);
    FILE *file = fopen(from, "rb");
    if (!data || !file)
        abort();
    data[0] = (uint8_t)kind;
    size_t size = 1 + fread(data + 1, 1, (1 << 20) - 1, file);
    fclose(file);
    write_file(folder, names[kind], data, size, path);
    free(data);
    unlink(from);
}

void samba_fuzz_seeds(const char *folder)
{
    static const uint8_t idx[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const char json[] = "{\"metadata\": {\"total_size\": 32}, \"weight_map\": {\"w\": \"a.safetensors\"}}";
    char path[512], made[512];
    samba_context *context;
    samba_tensor *tensor;
    if (samba_context_new(NULL, &context) != SAMBA_OK ||
        samba_tensor_new(context, "w", SAMBA_FLOAT32, 2, (int64_t[]){2, 4}, &tensor) != SAMBA_OK)
        abort();
    snprintf(made, sizeof made, "%s/made", folder);
    if (samba_npy_write(context, made, tensor) == SAMBA_OK)
        add_seed(folder, 0, made);
    if (samba_safetensors_write(context, made, 1, &tensor, NULL) == SAMBA_OK)
        add_seed(folder, 2, made);
    write_file(folder, "made", idx, sizeof idx, made);
    add_seed(folder, 3, made);
    static const char csv[] = "v1,n,v2\n1.5,2,\"3\"\n,7,-1e3\n\"4\",5,nan\n";
    static const char lines[] = "{\"n\": 1, \"v*\": [2, 3.5]}\n\n{\"v*\": [null, 1e3], \"n\": null}\n";
    write_file(folder, "made", (const uint8_t *)csv, sizeof csv - 1, made);
    add_seed(folder, TEXTS, made);
    write_file(folder, "made", (const uint8_t *)lines, sizeof lines - 1, made);
    add_seed(folder, TEXTS + 1, made);
    uint8_t shards[1024] = {SHARDS, (uint8_t)(sizeof json - 1), 0};
    memcpy(shards + 3, json, sizeof json - 1);
    snprintf(made, sizeof made, "%s/%s", folder, names[2]);
    FILE *file = fopen(made, "rb");
    if (!file || fgetc(file) == EOF)
        abort();
    size_t size = 3 + sizeof json - 1;
    size += fread(shards + size, 1, sizeof shards - size, file);
    fclose(file);
    write_file(folder, "shards", shards, size, path);
    samba_tensor_free(tensor);
    samba_context_free(context);
}
