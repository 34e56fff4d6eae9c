/* SPDX-License-Identifier: Apache-2.0
 *
 * What sambaflow scale has found: a table under all that it assumes, one JSON object, a picture. */
#include "cli/scale.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const char *const assumptions[] = {
    "every replica has a link of its own, in and out at once, and the network between the links is never the narrow part",
    "replicas are equally fast, and none waits for its data; a batch stays as large for each however many they are",
};

/* ---- for people ---- */
static void print_network(const samba_cli_network *network)
{
    char bandwidth[SAMBA_CELL], sums[SAMBA_CELL], words[SAMBA_CLI_NETWORK];
    const samba_network_cost *cost = &network->cost;
    printf("  %s: %s in and as much out, %.4g us to arrive, %.3g us of work a message, sums at %s; beside sections it takes "
           "%.0f %% of the processors and has %.0f %% of its speed; %s\n",
           network->name, samba_text_decimal(bandwidth, cost->bandwidth, "B/s"), 1e6 * cost->latency, 1e6 * cost->overhead,
           samba_text_decimal(sums, cost->sum_rate, "B/s"), 100 * cost->processor, 100 * cost->beside, network->words);
    if (strcmp(network->name, "measured") == 0)
        printf("  the same by hand: --network %s\n", samba_cli_network_text(cost, words));
}

static void print_head(const samba_scale *s)
{
    char name[SAMBA_SHOWN], bytes[SAMBA_CELL], ms[SAMBA_CELL];
    int exchanges = 0;
    for (int32_t i = 0; i < s->scaling.count; i++)
        exchanges += s->scaling.sections[i].bytes > 0;
    printf("%s: %s of gradients in %d exchanges, %lld samples a step of one replica\n", samba_shown(s->arguments->pef, name),
           samba_text_decimal(bytes, (double)s->scaling.bytes, "B"), exchanges, (long long)s->scaling.samples);
    printf("a step alone takes %s: %s\n", samba_text_ms(ms, 1e3 * s->rows[0].result.alone), s->times);
    if (s->arguments->sharded_optimizer)
        printf("each replica updates a part of the parameters, and gives it to all (run --shard-optimizer)\n");
    if (s->arguments->reduce_dtype == 1)
        printf("gradients travel as bfloat16 (run --reduce-dtype bfloat16)\n");
    printf("\nnetworks\n");
    for (int i = 0; i < s->network_count; i++)
        print_network(&s->networks[i]);
    printf("assumed\n");
    for (int i = 0; i < SAMBA_COUNT(assumptions); i++)
        printf("  %s\n", assumptions[i]);
    putchar('\n');
}

static const char *measured_of(const samba_scale_row *row, char text[2 * SAMBA_CELL])
{
    char ms[SAMBA_CELL];
    text[0] = '\0';
    if (row->measured > 0)
        snprintf(text, 2 * SAMBA_CELL, "%s, model %+.1f %%", samba_text_ms(ms, 1e3 * row->measured),
                 100 * (row->result.step / row->measured - 1));
    return text;
}

samba_status samba_scale_print(const samba_scale *s)
{
    samba_table table;
    print_head(s);
    samba_table_init(&table, s->context, "llrrrrrrrrl");
    samba_table_row(&table, "network\tmode\treplicas\tstep\texchange\tat best\thidden\tsamples/s\tefficiency\tmemory\t%s",
                    s->arguments->measure ? "measured" : "");
    for (int i = 0; i < s->row_count; i++) {
        const samba_scale_row *row = &s->rows[i];
        const samba_scaling_result *r = &row->result;
        char step[SAMBA_CELL], exchange[SAMBA_CELL], bound[SAMBA_CELL], memory[SAMBA_CELL], measured[2 * SAMBA_CELL];
        samba_table_row(&table, "%s\t%s\t%d\t%s\t%s\t%s\t%.0f %%\t%.4g\t%.1f %%\t%s\t%s", s->networks[row->network].name,
                        samba_replica_modes[row->how.mode], row->how.replicas, samba_text_ms(step, 1e3 * r->step),
                        samba_text_ms(exchange, 1e3 * r->exchange), samba_text_ms(bound, 1e3 * r->bound), 100 * r->hidden,
                        r->samples_per_second, 100 * r->efficiency, samba_text_bytes(memory, r->memory),
                        measured_of(row, measured));
    }
    return samba_table_print(&table, stdout, "");
}

/* ---- for programs ---- */
static json_t *network_json(const samba_cli_network *network)
{
    const samba_network_cost *cost = &network->cost;
    char words[SAMBA_CLI_NETWORK];
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", network->name, "from", network->words, "option",
                     samba_cli_network_text(cost, words), "bytes_per_second", samba_json_number(cost->bandwidth), "latency_s",
                     samba_json_number(cost->latency), "overhead_s", samba_json_number(cost->overhead), "sum_bytes_per_second",
                     samba_json_number(cost->sum_rate), "processor_share", samba_json_number(cost->processor),
                     "speed_beside_sections", samba_json_number(cost->beside));
}

static json_t *row_json(const samba_scale *s, const samba_scale_row *row)
{
    const samba_scaling_result *r = &row->result;
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "network", s->networks[row->network].name, "mode",
                  samba_replica_modes[row->how.mode], "replicas", row->how.replicas, "step_ms", samba_json_number(1e3 * r->step),
                  "exchange_ms", samba_json_number(1e3 * r->exchange), "bound_ms", samba_json_number(1e3 * r->bound), "hidden",
                  samba_json_number(r->hidden), "samples_per_second", samba_json_number(r->samples_per_second), "efficiency",
                  samba_json_number(r->efficiency), "memory_bytes", samba_json_number(r->memory));
    if (row->measured > 0)
        json_object_set_new(object, "measured_ms", samba_json_number(1e3 * row->measured));
    return object;
}

samba_status samba_scale_print_json(const samba_scale *s)
{
    json_t *networks = json_array(), *rows = json_array(), *assumed = json_array();
    for (int i = 0; i < s->network_count; i++)
        json_array_append_new(networks, network_json(&s->networks[i]));
    for (int i = 0; i < s->row_count; i++)
        json_array_append_new(rows, row_json(s, &s->rows[i]));
    for (int i = 0; i < SAMBA_COUNT(assumptions); i++)
        json_array_append_new(assumed, json_string(assumptions[i]));
    return samba_json_print(s->context,
                            json_pack("{s:s, s:s, s:I, s:I, s:b, s:s, s:o, s:s, s:o, s:o, s:o}", "command", "scale", "pef",
                                      s->arguments->pef, "exchanged_bytes", (json_int_t)s->scaling.bytes, "samples",
                                      (json_int_t)s->scaling.samples, "shard_optimizer", s->arguments->sharded_optimizer,
                                      "reduce_dtype", s->arguments->reduce_dtype == 1 ? "bfloat16" : "float32", "alone_ms",
                                      samba_json_number(1e3 * s->rows[0].result.alone), "times", s->times, "networks", networks,
                                      "assumed", assumed, "rows", rows),
                            stdout);
}

/* ---- the picture ---- */
enum { WIDTH = 760, HEIGHT = 430, LEFT = 60, RIGHT = 170, TOP = 40, BOTTOM = 50, POINTS = 64, INKS = 6 };
static const char *const inks[INKS] = {"#b45309", "#1d4ed8", "#047857", "#7c3aed", "#be123c", "#475569"};
static const char *const dashes[SAMBA_MODE_COUNT] = {"2 4", "none", "8 4"}; /* a mode each */

typedef struct axis {
    double low, high; /* of the numbers of replicas */
} axis;

static double across(const axis *x, double replicas)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * log(replicas / x->low) / log(x->high / x->low);
}

static double down(double efficiency) { return TOP + (HEIGHT - TOP - BOTTOM) * (1 - efficiency); }

static void draw_frame(const samba_scale *s, const axis *x, samba_text *svg)
{
    samba_text_add(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n<text x=\"%d\" y=\"22\" font-size=\"14\">%s: %lld samples a "
        "replica, %.0f MB of gradients</text>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, "Efficiency", (long long)s->scaling.samples, 1e-6 * (double)s->scaling.bytes);
    for (int i = 0; i <= 5; i++)
        samba_text_add(svg,
                       "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "
                       "text-anchor=\"end\">%d %%</text>\n",
                       LEFT, WIDTH - RIGHT, down(i / 5.0), down(i / 5.0), LEFT - 8, down(i / 5.0) + 4, 20 * i);
    samba_text_add(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">replicas</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                   HEIGHT - 12);
    for (double at = 1; at <= x->high * 1.0001; at *= 10)
        for (int digit = 1; digit < 10; digit += digit == 1 ? 1 : digit == 2 ? 3 : 5) { /* 1, 2, 5 */
            const double replicas = at * digit;
            if (replicas >= x->low && replicas <= x->high)
                samba_text_add(svg,
                               "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#eee\"/><text x=\"%.1f\" y=\"%d\" "
                               "text-anchor=\"middle\">%.0f</text>\n",
                               across(x, replicas), across(x, replicas), TOP, HEIGHT - BOTTOM, across(x, replicas),
                               HEIGHT - BOTTOM + 18, replicas);
        }
}

static samba_status draw_line(const samba_scale *s, const axis *x, const samba_scale_row *row, int number, samba_text *svg)
{
    const char *ink = inks[row->network % INKS];
    samba_scaling_result r = {0};
    samba_text_add(svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" points=\"", ink,
                   dashes[row->how.mode]);
    for (int i = 0; i <= POINTS; i++) {
        samba_scaling_how how = row->how;
        how.replicas = (int)lround(x->low * pow(x->high / x->low, (double)i / POINTS));
        SAMBA_TRY(samba_scaling_step(s->context, &s->scaling, &s->networks[row->network].cost, &how, &r));
        samba_text_add(svg, "%.1f,%.1f ", across(x, how.replicas), down(r.efficiency));
    }
    const int y = TOP + 10 + 20 * number;
    samba_text_add(svg,
                   "\"/>\n<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2\" "
                   "stroke-dasharray=\"%s\"/><text x=\"%d\" y=\"%d\">%s, %s</text>\n",
                   WIDTH - RIGHT + 12, WIDTH - RIGHT + 40, y, y, ink, dashes[row->how.mode], WIDTH - RIGHT + 46, y + 4,
                   s->networks[row->network].name, samba_replica_modes[row->how.mode]);
    return svg->status;
}

samba_status samba_scale_draw(const samba_scale *s, samba_text *svg)
{
    int low = INT_MAX, high = 0, lines = 0;
    for (int i = 0; i < s->row_count; i++) {
        low = s->rows[i].how.replicas < low ? s->rows[i].how.replicas : low;
        high = s->rows[i].how.replicas > high ? s->rows[i].how.replicas : high;
    }
    if (low >= high)
        return samba_fail(s->context, SAMBA_ERROR_ARGUMENT, "--svg: a line takes two numbers of replicas, and there is only %d",
                          high);
    const axis x = {low, high};
    draw_frame(s, &x, svg);
    for (int i = 0; i < s->row_count; i++)
        if (i == 0 || s->rows[i].network != s->rows[i - 1].network || s->rows[i].how.mode != s->rows[i - 1].how.mode)
            SAMBA_TRY(draw_line(s, &x, &s->rows[i], lines++, svg));
    samba_text_add(svg, "</svg>\n");
    return svg->status;
}
