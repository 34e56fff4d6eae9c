/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a session's time goes: seconds of each section, or of each stage too, of every run while profiling is on. Off, which it
 * is at first, it costs nothing; on, a look at the clock at each border, and the threads meet there. Copies between host and
 * device stand outside sections and are not in it. */
#ifndef SAMBAFLOW_PROFILE_H
#define SAMBAFLOW_PROFILE_H

#include <sambaflow/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_profile {
    SAMBA_PROFILE_OFF = 0,      /* what was measured stays until profiling is turned on again */
    SAMBA_PROFILE_SECTIONS = 1, /* each section as one */
    SAMBA_PROFILE_STAGES = 2    /* and the stages in it */
} samba_profile;
/* Turns it on, forgetting what was measured before, or off. Besides sums the first `most_events` single times are kept, 24 bytes
 * each. Takes all its memory here: ARGUMENT, MEMORY. */
SAMBA_API samba_status samba_session_profile(samba_session *session, samba_profile what, int64_t most_events);

typedef struct samba_time { /* of all runs since profiling was turned on */
    int64_t runs;
    double seconds, least, greatest; /* least and greatest of one run */
} samba_time;
/* Of a section or stage by its number; zeros where nothing was measured. ARGUMENT: there is no such number. */
SAMBA_API samba_status samba_session_section_time(const samba_session *session, int section, samba_time *time);
SAMBA_API samba_status samba_session_stage_time(const samba_session *session, int stage, samba_time *time);

typedef struct samba_stage_info {
    int section;           /* its id */
    const char *kind;      /* "tile" "contract" "pool" "gather" "attention" */
    const char *operators; /* as the .pef.log names them */
    int64_t flops, bytes;
    const char *road; /* of a contraction: the way it is computed on this machine, e.g. "panel"; NULL: its kind has one way */
    bool tuned;       /* a tune file chose how, not the model of the machine */
} samba_stage_info;
/* Stages are numbered as in the .pef.log. */
SAMBA_API int samba_session_stage_count(const samba_session *session);
SAMBA_API samba_status samba_session_stage_info(const samba_session *session, int stage, samba_stage_info *info);

typedef struct samba_profile_event {
    int section, stage;    /* stage -1: the section as one */
    double begin, seconds; /* begin counts from when profiling was turned on */
} samba_profile_event;
/* Single times in the order in which they ended, `count` of them; `left_out` more had no room.
 * They live until profiling is turned on again. */
SAMBA_API const samba_profile_event *samba_session_profile_events(const samba_session *session, int64_t *count,
                                                                  int64_t *left_out);

/* What a section exchanges with other replicas: REDUCE the mean of gradients; with shard_optimizer OPT, too, the parameters that
 * each replica has updated. Measured in every run with data_parallel, also where profiling is off. */
typedef struct samba_exchange_info {
    int section;           /* its id */
    const char *way;       /* "mean"; "scatter": each replica gets its part of it; "gather": everyone's parts come together */
    int64_t bytes;         /* that this replica sends in a run; it gets about as many */
    int64_t runs;          /* since the session began or samba_session_reset_stats */
    double seconds;        /* of all runs: on the network, which one exchange has at a time */
    double waited_seconds; /* of those: while this replica did nothing else. The others are hidden behind its sections */
} samba_exchange_info;
/* 0 where the session is not one of several replicas, or has not met the others yet. */
SAMBA_API int samba_session_exchange_count(const samba_session *session);
/* ARGUMENT: there is no such number. */
SAMBA_API samba_status samba_session_exchange_info(const samba_session *session, int exchange, samba_exchange_info *info);

#ifdef __cplusplus
}
#endif
#endif
