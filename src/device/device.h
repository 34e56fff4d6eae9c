/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between a session and a device: memory at offsets of one arena, copies in and out, sections that are built once
 * and run by number. cpu/cpu.c and null/null.c are the devices there are.
 *
 * Order of calls: open, allocate, build, once each. close ends a device at any point and frees all. measure may be called instead
 * of allocate and build; only close may follow it.
 *
 * write and read may be called by several threads at once for ranges that do not overlap. map gives a pointer to device memory,
 * or NULL where that is not in this process. run may return before its sections are done; wait returns after. Only then may
 * memory be read and the host memory of the run's copies be touched. Neither allocates. */
#ifndef SAMBA_DEVICE_H
#define SAMBA_DEVICE_H

#include "plan/plan.h"
#include <sambaflow/profile.h>

typedef struct samba_device_options {
    samba_context *context;
    int threads;     /* >= 1 */
    const char *isa; /* NULL: the best */
} samba_device_options;

typedef struct samba_profiler { /* where a device notes times; profile.c */
    bool with_stages;
    samba_time *sections, *stages;
    samba_profile_event *events;
    int64_t event_count, event_room, left_out;
    double origin;
} samba_profiler;
/* One run of a section (stage -1) or stage, from `begin` to `end` of samba_seconds. */
void samba_profiler_note(samba_profiler *profiler, int32_t section, int32_t stage, double begin, double end);

/* How a stage is prepared, instead of as the device's own model of its machine has it: by this road, with some of the figures
 * replaced that it tunes itself by. Texts are static, or the owner's. */
enum { SAMBA_CHOICE_FIGURES = 4 };
typedef struct samba_choice_figure {
    const char *group, *name; /* as facts name them */
    double value;
} samba_choice_figure;
typedef struct samba_choice {
    const char *road; /* NULL: the one that the model takes */
    int32_t figure_count;
    samba_choice_figure figures[SAMBA_CHOICE_FIGURES];
} samba_choice;

typedef struct samba_device { /* each device's struct begins with it */
    const struct samba_device_interface *interface;
    const char *isa;          /* in use; static text */
    const char *caution;      /* set by build: what the user should know of running this plan here; NULL: nothing; static text */
    int64_t scratch;          /* bytes that build added to the arena's: working memory of the greediest stage */
    int64_t kept;             /* and packs of constants */
    char unfit[256];          /* why build, rebuild or measure did without the choices that it was given; "": it took them */
    samba_profiler *profiler; /* set by the session between runs: to be told what sections take; NULL: not wanted */
} samba_device;

typedef struct samba_device_copy { /* between device memory and the host's */
    int64_t offset;
    char *host;
    int64_t bytes;
} samba_device_copy;
typedef struct samba_device_run { /* copies in, sections, copies out; those only where nothing went wrong */
    const int32_t *sections;
    const samba_device_copy *in, *out;
    int32_t section_count, in_count, out_count;
} samba_device_run;

typedef struct samba_device_fact { /* what a device knows of the machine it runs on; texts are static, or the device's */
    const char *group, *name;
    const char *text; /* NULL: it is a number */
    double number;
    const char *unit, *meaning; /* unit "": none */
} samba_device_fact;
typedef void samba_device_tell(void *to, const samba_device_fact *fact);

typedef struct samba_device_interface {
    const char *name;
    /* needs no device; facts in order */
    samba_status (*describe)(const samba_device_options *options, samba_device_tell *tell, void *to);
    samba_status (*open)(const samba_device_options *options, samba_device **device);
    void (*close)(samba_device *device);
    /* the arena, all zeros, for a plan whose buffers lie in it; what lies beyond it is elsewhere */
    samba_status (*allocate)(samba_device *device, const samba_plan *plan, int64_t bytes);
    samba_status (*write)(samba_device *device, int64_t offset, const void *host, size_t size);
    samba_status (*read)(samba_device *device, int64_t offset, void *host, size_t size);
    char *(*map)(samba_device *device, int64_t offset);
    samba_status (*build)(samba_device *device, const samba_plan *plan); /* the plan outlives the device */
    /* after offsets of the plan's buffers have changed: addresses relative to map(0); may be NULL */
    samba_status (*rebuild)(samba_device *device);
    /* what build would add to the arena's memory: scratch, kept */
    samba_status (*measure)(samba_device *device, const samba_plan *plan);
    samba_status (*run)(samba_device *device, const samba_device_run *run);
    samba_status (*wait)(samba_device *device); /* ARGUMENT names the stage that met an index out of range */
    /* The next three: NULL where the device has no choices. choose comes before build, rebuild or measure: how stages are
     * prepared, a choice a stage or NULL for what the model has; NULL: the model has all. They outlive the device. ARGUMENT where
     * one is none that the device ever offers for a stage of its kind; choices that it offers and that this plan cannot have are
     * left out by build, all of them: `unfit` says why. */
    samba_status (*choose)(samba_device *device, const samba_plan *plan, const samba_choice *const *choices);
    /* After build: other choices for a stage than the model's that lead to something else, `count` of them. */
    samba_status (*alternatives)(samba_device *device, int32_t stage, int32_t room, samba_choice *list, int32_t *count);
    const char *(*road)(const samba_device *device,
                        int32_t stage); /* after build or measure; NULL: its kind has one road alone */
} samba_device_interface;

extern const samba_device_interface samba_device_cpu, samba_device_null;

/* ---- host_memory.c: an arena in this process's memory, for devices that live there ---- */
typedef struct samba_host_memory {
    samba_context *context;
    char *data; /* 64-byte aligned; NULL: not there */
    size_t size;
} samba_host_memory;
/* Zeroed by `threads` threads, each the part that lies nearest to it. MEMORY says how much the machine has. */
samba_status samba_host_memory_new(samba_context *context, int64_t bytes, int threads, samba_host_memory *memory);
/* The same with each page of SAMBA_LARGE_PAGE zeroed by owners[page]; NULL: each thread has one part. */
samba_status samba_host_memory_new_for(samba_context *context, int64_t bytes, int threads, const uint16_t *owners,
                                       samba_host_memory *memory);
/* Who uses each page of an arena most: stages deal a buffer in the order of memory, the first part to the first thread. Pages of
 * several buffers are the largest one's. */
samba_status samba_page_owners(const samba_plan *plan, int64_t bytes, int threads, samba_arena *arena, uint16_t **owners);
void samba_host_memory_free(samba_host_memory *memory);

#endif
