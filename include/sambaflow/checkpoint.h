/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: all that a training needs to go on to the same bits as if it had never stopped. A folder holds one folder a
 * checkpoint, "checkpoint-<step>", with
 *
 *   model.safetensors        parameters and buffers by PyTorch's names. Over a size: model-00001-of-00003.safetensors ... and
 *                            model.safetensors.index.json, as Hugging Face's libraries write and read them
 *   optimizer.safetensors    the optimizers' state; gradients where they wait for an optimizer step; gradients of outputs.
 *                            Cut likewise
 *   program.safetensors      tensors of the program: where its data stands, states of random generators
 *   checkpoint.json          step, seed, counters and hyperparameters, the program's text, and the size and checksum of each file
 *
 * It is written under another name, reaches the disk, and only then is renamed: under its own name a checkpoint is whole,
 * whenever the process or the machine stops. Older ones are deleted after that. Reaching the disk (fsync of each file) takes tens
 * of milliseconds a checkpoint, whatever its size: save every so many steps or seconds, not in each step. The next save removes
 * the remains of an interrupted one. */
#ifndef SAMBAFLOW_CHECKPOINT_H
#define SAMBAFLOW_CHECKPOINT_H

#include <sambaflow/data.h>
#include <sambaflow/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_checkpoint_options {
    size_t struct_size;
    const char *folder; /* of the checkpoints; made where it is missing */
    int64_t step;       /* names the checkpoint; one that is there already is replaced, by exchanging the two */
    int keep;           /* so many stay, this one and the newest before it; 0: all. Those of greater steps are left alone */
    int64_t shard_size; /* bytes of tensors in a file at most, but for a tensor that is larger; 0: 5 GB */
    const char *text;   /* the program's own, UTF-8, kept as it is; NULL: none */
    int tensor_count;
    samba_tensor *const *tensors; /* the program's own, each with a name; theirs stays the memory */
} samba_checkpoint_options;
SAMBA_API samba_checkpoint_options samba_checkpoint_defaults(void); /* the 2 newest stay */

/* Makes the folder and removes what interrupted saves have left in it: for a start, so that a folder that cannot be written to is
 * known before an hour of training. FILE; STATE where another process saves into it. */
SAMBA_API samba_status samba_checkpoint_prepare(samba_context *context, const char *folder);
/* Saves the session as it is between two runs. FILE (a full disk, no permission): the message names the file, and the checkpoints
 * that were there are as they were; ARGUMENT, NAME: of the options; STATE: another process saves into the folder. */
SAMBA_API samba_status samba_checkpoint_save(samba_session *session, const samba_checkpoint_options *options);

/* A checkpoint whose files were all found as they were saved. */
typedef struct samba_checkpoint samba_checkpoint;
/* Opens "<folder>/checkpoint-<step>". FORMAT says which file is missing or damaged and how, or that the path is no checkpoint but
 * a folder of them; UNSUPPORTED: of another format. */
SAMBA_API samba_status samba_checkpoint_open(samba_context *context, const char *path, samba_checkpoint **checkpoint);
/* The one of the greatest step in a folder that is whole; samba_checkpoint_skipped tells of those that were passed over since
 * they are damaged. NULL where the folder has none or is not there; FORMAT where it has some and all are damaged. */
SAMBA_API samba_status samba_checkpoint_newest(samba_context *context, const char *folder, samba_checkpoint **checkpoint);
SAMBA_API void samba_checkpoint_free(samba_checkpoint *checkpoint);

/* Results of these functions live as long as the checkpoint. */
SAMBA_API const char *samba_checkpoint_path(const samba_checkpoint *checkpoint);
SAMBA_API int64_t samba_checkpoint_step(const samba_checkpoint *checkpoint);
SAMBA_API const char *samba_checkpoint_text(const samba_checkpoint *checkpoint); /* NULL: none */
SAMBA_API const samba_tensor_list *samba_checkpoint_tensors(const samba_checkpoint *checkpoint);
SAMBA_API uint64_t samba_checkpoint_seed(const samba_checkpoint *checkpoint);       /* the session's */
SAMBA_API const char *samba_checkpoint_skipped(const samba_checkpoint *checkpoint); /* "": none */

/* Loads it into a session of the same graph: the tensors must be those of the PEF, by name, dtype and shape, none more and none
 * less, and so must the hyperparameters. NAME, DTYPE, SHAPE say what differs; FORMAT: damaged since it was opened; ARGUMENT:
 * NULL, which samba_checkpoint_newest gives where there is none. Nothing is loaded before all was checked. */
SAMBA_API samba_status samba_checkpoint_load(samba_session *session, const samba_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
