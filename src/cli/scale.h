/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow scale in two files: scale.c finds the numbers, scale_show.c prints and draws them. */
#ifndef SAMBA_CLI_SCALE_H
#define SAMBA_CLI_SCALE_H

#include "cli/cli.h"
#include "report/scaling.h"

typedef struct samba_scale_row {
    int network; /* of the list */
    samba_scaling_how how;
    samba_scaling_result result;
    double measured; /* seconds of a step of these replicas; 0: it was not */
} samba_scale_row;

typedef struct samba_scale {
    samba_context *context;
    const samba_cli_arguments *arguments;
    samba_plan plan;
    samba_arena arena;
    samba_scaling scaling;
    samba_replicas self;
    int network_count, row_count, mode_count;
    samba_replica_mode modes[SAMBA_MODE_COUNT];
    double measured[SAMBA_MODE_COUNT]; /* seconds of a step in each mode; 0: it was not */
    samba_cli_network networks[SAMBA_CLI_MAX_NETWORKS + 1];
    samba_scale_row *rows;
    char times[320]; /* where the sections' times come from, for people */
} samba_scale;

samba_status samba_scale_print(const samba_scale *scale);
samba_status samba_scale_print_json(const samba_scale *scale);
/* Efficiency over the number of replicas as SVG, a line for each network and mode. */
samba_status samba_scale_draw(const samba_scale *scale, samba_text *svg);

#endif
