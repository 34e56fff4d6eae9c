/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks by name or by figures, as the option --network of scale has them, and back: what was measured is printed as words that
 * the option takes. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct known {
    const char *name, *words;
    samba_network_cost cost;
} known[] = {
    /* Of 1538 bytes on the line 1448 are data: MTU 1500. Messages go through the kernel. */
    {"10gbit",
     "assumed of TCP over Ethernet, 94 % of the line",
     {.bandwidth = 1.18e9, .latency = 25e-6, .overhead = 1.5e-6, .sum_rate = 10e9, .beside = 1}},
    /* MTU 4096; messages go past the kernel. */
    {"100gbit",
     "assumed of RDMA, 97 % of the line",
     {.bandwidth = 12.1e9, .latency = 3e-6, .overhead = 0.3e-6, .sum_rate = 10e9, .beside = 1}},
    {"400gbit",
     "assumed of RDMA, 97 % of the line",
     {.bandwidth = 48.5e9, .latency = 2e-6, .overhead = 0.3e-6, .sum_rate = 10e9, .beside = 1}},
};

typedef struct unit {
    const char *name;
    double factor;
} unit;

enum { MOST_UNITS = 12 };
static const unit rates[MOST_UNITS] = {{"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"Tbit", 125e9}, {"kB", 1e3},
                                       {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12},    {"B", 1}},
                  times[MOST_UNITS] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                  works[MOST_UNITS] = {{"", 1}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}}, plain[MOST_UNITS] = {{"", 1}};

/* "1.5GB" up to a comma or the end; behind it, *text is the next one, NULL: there is none. */
static bool take(const char **text, const unit units[MOST_UNITS], double *value)
{
    char *end;
    *value = strtod(*text, &end);
    const size_t length = strcspn(end, ",");
    bool known_unit = false;
    for (int i = 0; i < MOST_UNITS && units[i].name && !known_unit && end > *text; i++)
        if (strlen(units[i].name) == length && strncasecmp(end, units[i].name, length) == 0) {
            *value *= units[i].factor;
            known_unit = true;
        }
    *text = end[length] ? end + length + 1 : NULL;
    return known_unit && isfinite(*value) && *value >= 0;
}

static bool take_figures(const char *text, samba_network_cost *cost)
{
    *cost = (samba_network_cost){.overhead = 1e-6, .sum_rate = 10e9, .beside = 1};
    if (!take(&text, rates, &cost->bandwidth) || cost->bandwidth <= 0 || !text || !take(&text, times, &cost->latency))
        return false;
    if (text && !take(&text, times, &cost->overhead))
        return false;
    if (text && (!take(&text, rates, &cost->sum_rate) || cost->sum_rate <= 0))
        return false;
    if (text && (!take(&text, plain, &cost->processor) || cost->processor >= 1))
        return false;
    if (text && (!take(&text, plain, &cost->beside) || cost->beside <= 0 || cost->beside > 1))
        return false;
    return !text;
}

bool samba_cli_network_take(const char *text, samba_cli_network *network)
{
    *network = (samba_cli_network){.words = "as --network says"};
    snprintf(network->name, sizeof network->name, "%.*s", (int)strcspn(text, ","), text);
    for (int i = 0; i < SAMBA_COUNT(known); i++)
        if (strcasecmp(text, known[i].name) == 0) {
            network->cost = known[i].cost;
            network->words = known[i].words;
            return true;
        }
    return take_figures(text, &network->cost);
}

bool samba_cli_rates_take(const char *text, double *flops, double *memory)
{
    if (!take(&text, works, flops) || *flops <= 0)
        return false;
    *memory = *flops / 10; /* as servers have it: 2 TFLOP/s, 200 GB/s */
    return !text || (take(&text, rates, memory) && *memory > 0 && !text);
}

const char *samba_cli_network_text(const samba_network_cost *cost, char text[SAMBA_CLI_NETWORK])
{
    snprintf(text, SAMBA_CLI_NETWORK, "%.4gMB,%.4gus,%.4gus,%.4gMB,%.2f,%.2f", 1e-6 * cost->bandwidth, 1e6 * cost->latency,
             1e6 * cost->overhead, 1e-6 * cost->sum_rate, cost->processor, cost->beside);
    return text;
}
