/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning: which road and which sizes of blocks are the fastest for each stage of one PEF on one machine, as it was measured and
 * not as the device's model has it. tune_file.c reads and writes what was found, PEF.tune; tune.c gives a device the choices of a
 * file that fits; tune_search.c measures.
 *
 * A file fits one plan, by its hash, on one machine: processor, caches, instruction set, threads, and all figures that the device
 * tunes itself by, so that another version of the library with other figures does without it. */
#ifndef SAMBA_TUNE_H
#define SAMBA_TUNE_H

#include "device/device.h"
#include <sambaflow/session.h>

#define SAMBA_TUNE_FORMAT 1
#define SAMBA_TUNE_ENDING ".tune"
#define SAMBA_TUNE_OFF "off"
#define SAMBA_TUNE_LARGEST_FILE (16 << 20) /* bounds the memory that reading it takes */

enum { SAMBA_TUNE_CACHES = 3 };
typedef struct samba_tune_machine {
    char processor[64], isa[32];
    int32_t threads;
    int64_t caches[SAMBA_TUNE_CACHES]; /* bytes, the nearest first; 0: there is none, or nobody tells */
    uint64_t figures;                  /* hash of all else that the device knows of the machine and tunes itself by */
} samba_tune_machine;

typedef struct samba_tune_choice {
    int32_t stage;
    double gain; /* share of the stage's time that it saved when it was measured */
    samba_choice choice;
} samba_tune_choice;

typedef struct samba_tune {
    uint64_t plan; /* its hash */
    int32_t stages;
    samba_tune_machine machine;
    int32_t count; /* of choices, by ascending stage */
    samba_tune_choice *choices;
} samba_tune;

/* ---- tune_file.c ---- */
samba_status samba_tune_write(samba_context *context, const char *path, const samba_tune *tune);
/* Into the arena. FORMAT: not a file as this library writes it; UNSUPPORTED: of another format; FILE: it cannot be read. */
samba_status samba_tune_read(samba_arena *arena, const char *path, samba_tune *tune);
/* STATE, by field, expected and given, unless the file is for this plan and machine. */
samba_status samba_tune_check(samba_context *context, const char *path, const samba_tune *tune, uint64_t plan, int32_t stages,
                              const samba_tune_machine *machine);

/* ---- tune.c ---- */
/* What a device knows of the machine, as a tune file says it. */
samba_status samba_tune_machine_find(samba_context *context, const samba_device *device, int threads,
                                     samba_tune_machine *machine);
typedef struct samba_tuned { /* which choices a device has; texts and lists are in an arena */
    const char *path;        /* of the file in use; NULL: none, the model decides alone */
    int32_t count;
    const samba_choice *const *choices; /* per stage */
    char warning[512];                  /* why a file is not used, once the device has built; "": there is no such thing */
} samba_tuned;
/* Gives the device the choices of a file before it builds. `file` NULL or "off": none. A file that does not fit, or that is none,
 * is passed over with a warning; only what leaves no session fails: memory. */
samba_status samba_tune_begin(samba_context *context, samba_arena *arena, samba_device *device, const samba_plan *plan,
                              int threads, const char *file, samba_tuned *tuned);
/* After it has built: choices that the plan could not have are none. */
void samba_tune_settle(const samba_device *device, samba_tuned *tuned);
/* The file that a session of a PEF takes: `asked` if there is one, else "<pef>.tune" where it is there, else "off". */
samba_status samba_tune_file(samba_arena *arena, const char *pef, const char *asked, const char **file);

/* ---- tune_search.c ---- */
typedef enum samba_tune_phase { SAMBA_TUNE_TRY, SAMBA_TUNE_CONFIRM, SAMBA_TUNE_WHOLE, SAMBA_TUNE_PHASES } samba_tune_phase;
typedef struct samba_tune_options {
    double seconds; /* to measure for, about; it tries one way of each stage at least, and takes the fewest turns that confirm */
    int run_count;  /* that are one step */
    const samba_run_options *runs;
    /* called between measurements; NULL: nobody is told */
    void (*tell)(void *to, samba_tune_phase phase, double share, int64_t ways, int64_t stages);
    void *to;
} samba_tune_options;
typedef struct samba_tune_finding { /* of stages that do the same work */
    int32_t stage, stage_count;     /* the first of them */
    const samba_choice *choice;
    const char *model, *best; /* roads; "" where the kind has one alone */
    double model_ms, best_ms; /* of all of them */
} samba_tune_finding;
typedef struct samba_tune_result {
    samba_tune tune; /* choices that are worth it */
    samba_tune_finding *findings;
    int32_t finding_count;
    int64_t stages, kinds, ways;     /* that have a choice; of different work; ways that there are */
    int64_t untried;                 /* ways that there was no time for */
    double enough_seconds;           /* if any: about how many would try all of them */
    int32_t turns, confirming_turns; /* of the search; of confirming what it found */
    double noise;                    /* share by which the model differs from itself, the median over stages */
    double model_ms, tuned_ms;       /* of a step, the second by the median of ratios; equal where nothing was found */
    bool dropped;                    /* choices were found, and whole steps were no faster for them */
} samba_tune_result;
struct samba_session;
/* Tries the choices of all stages that have some. The session goes on by its model afterwards; its weights and state have changed
 * as runs change them. */
samba_status samba_tune_search(struct samba_session *session, const samba_tune_options *options, samba_arena *arena,
                               samba_tune_result *result);

#endif
