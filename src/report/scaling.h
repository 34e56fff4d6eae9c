/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of a training step by many replicas: the sections of a plan with a time each, exchanges with the cost of a network
 * (parallel/cost.h), in the order in which a session runs them in each mode. Numbers in, numbers out: it measures nothing.
 * docs/scaling.md has the formulas. */
#ifndef SAMBA_SCALING_H
#define SAMBA_SCALING_H

#include "parallel/cost.h"
#include "plan/plan.h"
#include "runtime/runtime.h"

typedef struct samba_scaling_section { /* of a step, in the order of the schedule */
    int32_t section, phase;            /* of the plan */
    double seconds;                    /* 0 of an exchange */
    int64_t bytes;                     /* that it exchanges; 0: it computes */
    int32_t element;                   /* bytes of one */
    int32_t completed_by;              /* the place in this list of the section that completes what it exchanges; -1: none */
} samba_scaling_section;

typedef struct samba_scaling {
    int32_t count;
    samba_scaling_section *sections;
    bool *follows;   /* [a * count + b]: the update a has to follow the exchange or update b */
    double before;   /* seconds of a step in front of these: micro-batches whose gradients do not travel, inputs */
    int32_t runs;    /* of FWD and BCKWD in a step */
    int64_t samples; /* of one replica in a step */
    int64_t bytes;   /* that a replica exchanges */
    bool norms;      /* not updates alone read the means of gradients, so all replicas need all, with shard_optimizer too */
    samba_memory_info memory;
} samba_scaling;

typedef struct samba_scaling_how {
    int replicas;
    samba_replica_mode mode;
    bool shard;  /* each replica updates a part of the parameters alone, and gives it to all */
    bool halves; /* gradients travel as bfloat16 */
} samba_scaling_how;

typedef struct samba_scaling_result {      /* seconds of a step, but for rates and shares */
    double step, alone;                    /* alone: of one replica */
    double exchange, bound;                /* while something was under way; that of the best algorithm with the same bandwidth */
    double hidden;                         /* the share of `exchange` by which the step is not longer */
    double samples_per_second, efficiency; /* alone / step */
    double memory;                         /* bytes of a replica, by the plan, and what an exchange takes */
} samba_scaling_result;

/* The last run of a step of one graph of a checked plan, without times; in the arena. ARGUMENT where the graph does not train, or
 * has no section of type REDUCE. */
samba_status samba_scaling_find(samba_context *context, const samba_plan *plan, int32_t graph, samba_arena *arena,
                                samba_scaling *scaling);
/* Gives sections their times: `seconds` of one run, by the plan's sections; `rest` is what a step takes besides. */
void samba_scaling_set_times(samba_scaling *scaling, const double *seconds, double rest);
double samba_scaling_alone(const samba_scaling *scaling); /* seconds of a step of one replica */
/* All times longer or shorter alike, so that a step alone takes `step`. */
void samba_scaling_fit(samba_scaling *scaling, double step);
/* Seconds of a section where a machine does so many FLOP and moves so many bytes a second, stage by stage. */
double samba_scaling_roof(const samba_plan *plan, int32_t section, double flops_per_second, double bytes_per_second);
/* ARGUMENT-free: replicas are 1 or more. MEMORY */
samba_status samba_scaling_step(samba_context *context, const samba_scaling *scaling, const samba_network_cost *network,
                                const samba_scaling_how *how, samba_scaling_result *result);

#endif
