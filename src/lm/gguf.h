/* SPDX-License-Identifier: Apache-2.0
 *
 * Language models of GGUF files: metadata becomes the config.json that the model had, or would have had, in a folder, so that one
 * table of architectures reads both; tensors become the parameters of that architecture by their places in the description. What
 * files have in another order than the folder's tensors, rows of rotary weights and of joint projections, is put in order here.
 *
 * gguf_config.c reads metadata, gguf_names.c knows tensors, gguf_weights.c reads them. */
#ifndef SAMBA_LM_GGUF_H
#define SAMBA_LM_GGUF_H

#include "data/data.h"
#include "gguf/gguf.h"
#include "lm/lm.h"

/* An architecture's name in files and what differs between their metadata; keys are those of config.json, NULL: it has none. */
typedef struct samba_lm_gguf_kind {
    const char *name, *model_type;
    const char *hidden, *layers, *heads, *inner, *positions, *eps, *theta;
    bool rms;              /* whose epsilon is meant */
    bool groups, head_dim; /* num_key_value_heads and head_dim are keys of its config */
    const char *partial;   /* the part of a head's features that turns */
    bool turned;           /* rows of queries and keys are pairs that turn together, which folders have half a head apart */
    samba_lm_activation activation; /* files do not say it */
} samba_lm_gguf_kind;
extern const samba_lm_gguf_kind samba_lm_gguf_kinds[];
extern const int samba_lm_gguf_kind_count;

/* config.json of a file's metadata; the caller drops it. */
samba_status samba_lm_gguf_config(const samba_gguf *gguf, const samba_lm_gguf_kind **kind, json_t **config);

/* ---- gguf_names.c ---- */
typedef struct samba_lm_gguf_place { /* where a parameter is in a file */
    char name[128];
    int rank;
    int64_t shape[2]; /* of the file's tensor */
    bool transposed;  /* to the parameter's */
    bool plus_one;    /* the file's value is one more */
    int64_t slice;    /* the parameter is this row of the tensor; -1: it is all of it */
    enum { SAMBA_LM_ROWS_ALIKE, SAMBA_LM_ROWS_TURNED, SAMBA_LM_ROWS_GROUPED } rows;
} samba_lm_gguf_place;
/* False where files of the kind have no such tensor. */
bool samba_lm_gguf_place_of(const samba_lm_shape *shape, const samba_lm_gguf_kind *kind, const samba_parameter_info *parameter,
                            samba_lm_gguf_place *place);
/* The file's row of a parameter's row. */
int64_t samba_lm_gguf_row(const samba_lm_shape *shape, const samba_lm_gguf_place *place, int64_t row);

/* ---- gguf_weights.c ---- */
/* Each of the model's parameters, of which one is in memory at a time; what is visited is the visitor's. */
samba_status samba_lm_gguf_each(const samba_lm *lm, samba_tensor_visit *visit, void *user);

#endif
