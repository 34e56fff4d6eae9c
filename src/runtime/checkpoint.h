/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of checkpoints (sambaflow/checkpoint.h). checkpoint_folder.c knows folders: their names, making one appear, removing
 * old ones; manifest.c reads and writes checkpoint.json; checkpoint_save.c and checkpoint_load.c move a session's tensors. */
#ifndef SAMBA_CHECKPOINT_INTERNAL_H
#define SAMBA_CHECKPOINT_INTERNAL_H

#include "data/data.h"
#include <jansson.h>
#include <sambaflow/checkpoint.h>

/* ---- manifest.c ---- */
#define SAMBA_CHECKPOINT_FORMAT 1
#define SAMBA_MANIFEST "checkpoint.json"
typedef enum samba_checkpoint_role {
    SAMBA_FILE_MODEL,
    SAMBA_FILE_OPTIMIZER,
    SAMBA_FILE_PROGRAM,
    SAMBA_FILE_ROLES
} samba_checkpoint_role;
extern const char *const samba_checkpoint_roles[SAMBA_FILE_ROLES]; /* "model": how its files' names begin */
typedef struct samba_checkpoint_file {
    const char *name; /* without a folder */
    samba_checkpoint_role role;
    samba_file_facts facts;
} samba_checkpoint_file;
typedef struct samba_checkpoint_argin {
    const char *name;
    double value;
    bool given;
} samba_checkpoint_argin;
typedef struct samba_checkpoint_graph { /* of a PEF: where its step stands, as in the session */
    const char *name;
    int64_t micro_step;
    bool gradients_wait;
} samba_checkpoint_graph;
typedef struct samba_manifest { /* texts and lists are its maker's, or in the arena it was read into */
    const char *name;           /* of the PEF's graph, or of several */
    int64_t step;
    uint64_t seed;
    int64_t forward_runs; /* as in the session */
    int64_t graph_count, argin_count, file_count;
    samba_checkpoint_graph *graphs;
    samba_checkpoint_argin *argins;
    samba_checkpoint_file *files;
    const char *text; /* NULL: none */
} samba_manifest;
samba_status samba_manifest_write(samba_context *context, const char *path, const samba_manifest *manifest);
/* FORMAT where it is damaged; UNSUPPORTED where it is of another format. */
samba_status samba_manifest_read(samba_arena *arena, const char *path, samba_manifest *manifest);

/* ---- checkpoint_folder.c ---- */
typedef struct samba_checkpoint_folder { /* open for saving: no other process saves into it meanwhile */
    samba_context *context;
    const char *path;
    int file; /* of the folder, which carries the lock; -1: not open */
} samba_checkpoint_folder;
/* Makes the folder where it is missing, locks it and removes what interrupted saves have left. Close it in any case. */
samba_status samba_checkpoint_folder_open(samba_context *context, const char *path, samba_checkpoint_folder *folder);
void samba_checkpoint_folder_close(samba_checkpoint_folder *folder);
/* "<folder>/checkpoint-<step><ending>", sticky like all texts. The endings: */
#define SAMBA_CHECKPOINT_WHOLE ""
#define SAMBA_CHECKPOINT_UNFINISHED ".tmp" /* being written */
#define SAMBA_CHECKPOINT_OLD ".old"        /* being removed */
samba_status samba_checkpoint_name(samba_text *text, samba_context *context, const char *folder, int64_t step,
                                   const char *ending);
/* A new empty folder "checkpoint-<step>.tmp"; its end where saving failed;
 * its rename to "checkpoint-<step>", which lasts over a power cut. */
samba_status samba_checkpoint_folder_begin(const samba_checkpoint_folder *folder, int64_t step);
void samba_checkpoint_folder_abandon(const samba_checkpoint_folder *folder, int64_t step);
samba_status samba_checkpoint_folder_publish(const samba_checkpoint_folder *folder, int64_t step);
/* Removes those of smaller steps but for the newest `keep` - 1. */
samba_status samba_checkpoint_folder_keep(const samba_checkpoint_folder *folder, int64_t step, int keep);
/* Steps of the folder's entries of that ending, the greatest first; none where the folder is not there. */
samba_status samba_checkpoint_steps(samba_arena *arena, const char *folder, const char *ending, int64_t **steps, int64_t *count);

#endif
