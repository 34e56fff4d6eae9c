/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow scale: how fast many replicas would train a PEF, by the model of report/scaling.c. Times of sections come from steps
 * that are run here and now with random inputs, from a profile, or from the rates of a machine that is not here. Under mpirun all
 * replicas measure at once, so that what they take from each other counts; with --measure they measure the network too, and then
 * steps with exchanges, which stand beside what the model says of them. The first replica prints.
 *
 * Learning rates are 0 in these steps: random inputs drive the weights nowhere. */
#include "cli/scale.h"
#include "report/report.h"
#include "runtime/shard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10, WARM_UP = 2, BESIDE_STEPS = 5, DEFAULTS = 9 };
static const int default_replicas[DEFAULTS] = {2, 4, 8, 16, 64, 256, 1024, 4096, 10000};
static const char *const default_networks[] = {"10gbit", "100gbit", "400gbit"};

/* ---- steps that are run ---- */
typedef struct runner {
    samba_scale *scale;
    int32_t graph;
    int steps;
    samba_session *session, *exchanging; /* the same, but where an option of exchanges has to be known at load */
    samba_io io;
    samba_run_options run;
    double *walls; /* of the steps */
} runner;

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* mode NULL: without exchanges, until all replicas have done it, as the slowest decides with exchanges too. */
static samba_status run_step(runner *r, const samba_replica_mode *mode, double *seconds)
{
    r->run.data_parallel = mode != NULL;
    r->run.data_parallel_mode = mode ? samba_replica_modes[*mode] : NULL;
    const double start = samba_seconds();
    for (int32_t k = 0; k < r->scale->scaling.runs; k++)
        SAMBA_TRY(samba_run(mode ? r->exchanging : r->session, &r->run));
    if (!mode)
        SAMBA_TRY(samba_replicas_wait(r->scale->context));
    *seconds = samba_seconds() - start;
    return SAMBA_OK;
}

static samba_status open_runner(runner *r)
{
    samba_scale *s = r->scale;
    const samba_cli_arguments *a = s->arguments;
    samba_session_options options = samba_cli_session(a);
    options.data_parallel = s->self.size > 1;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, r->walls, r->steps));
    SAMBA_TRY(samba_io_new(s->context, &s->plan, r->graph, a->seed, &s->arena, &r->io));
    SAMBA_TRY(samba_session_new(s->context, a->pef, &options, &r->session));
    if (a->load)
        SAMBA_TRY(samba_session_load(r->session, a->load));
    r->exchanging = r->session;
    if (a->measure && (a->sharded_optimizer || a->reduce_dtype == 1)) {
        options.shard_optimizer = a->sharded_optimizer;
        options.reduce_dtype = a->reduce_dtype == 1 ? "bfloat16" : NULL;
        SAMBA_TRY(samba_session_new(s->context, a->pef, &options, &r->exchanging));
        if (a->load)
            SAMBA_TRY(samba_session_load(r->exchanging, a->load));
        SAMBA_TRY(samba_cli_stop_learning(r->exchanging));
    }
    r->run = samba_run_defaults();
    r->run.graph_name = s->plan.graph_count > 1 ? s->plan.graphs[r->graph].name : NULL;
    r->run.input_count = r->io.input_count;
    r->run.inputs = r->io.inputs;
    return samba_cli_stop_learning(r->session);
}

/* The mean of all replicas. */
static samba_status average(const samba_scale *s, double *values, int count)
{
    double *all;
    samba_arena arena;
    samba_arena_init(&arena, s->context);
    samba_status status = SAMBA_ROOM(&arena, all, count * s->self.size);
    if (status == SAMBA_OK)
        status = samba_replicas_gather(s->context, values, sizeof *values * (size_t)count, all);
    for (int i = 0; i < count && status == SAMBA_OK; i++) {
        double sum = 0;
        for (int rank = 0; rank < s->self.size; rank++)
            sum += all[rank * count + i];
        values[i] = sum / s->self.size;
    }
    samba_arena_free(&arena);
    return status;
}

/* Times of sections in the median step: the clock of the profile says how its parts compare, and the step how long it is. */
static samba_status measure_sections(runner *r)
{
    samba_scale *s = r->scale;
    double *seconds, unused, sum = 0, all = 0;
    const int count = s->plan.section_count;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, seconds, count + 1));
    SAMBA_TRY(samba_replicas_wait(s->context));
    for (int i = 0; i < WARM_UP; i++)
        SAMBA_TRY(run_step(r, NULL, &unused));
    SAMBA_TRY(samba_session_profile(r->session, SAMBA_PROFILE_SECTIONS, 0));
    for (int i = 0; i < r->steps; i++) {
        SAMBA_TRY(run_step(r, NULL, &r->walls[i]));
        all += r->walls[i];
    }
    SAMBA_TRY(samba_session_profile(r->session, SAMBA_PROFILE_OFF, 0));
    const double step = median_of(r->walls, r->steps), scale = step * r->steps / all;
    for (int i = 0; i < count; i++) {
        samba_time time;
        SAMBA_TRY(samba_session_section_time(r->session, i, &time));
        seconds[i] = samba_time_mean(&time) * scale;
        sum += time.seconds / r->steps * scale;
    }
    seconds[count] = step > sum ? step - sum : 0;
    SAMBA_TRY(average(s, seconds, count + 1));
    samba_scaling_set_times(&s->scaling, seconds, seconds[count]);
    snprintf(s->times, sizeof s->times, "measured here, the median of %d steps with %d threads%s", r->steps,
             samba_session_threads(r->session), s->self.size > 1 ? ", all replicas of this launch at once" : "");
    return SAMBA_OK;
}

/* Steps of the replicas that are here, in turns, each mode's by the step alone of the same turn, so that whatever else the
 * machine does meets both alike. The times of sections are made to fit the median step alone. */
static samba_status measure_modes(runner *r)
{
    samba_scale *s = r->scale;
    const int turns = r->steps;
    double *walls, medians[SAMBA_MODE_COUNT + 1];
    SAMBA_TRY(SAMBA_ROOM(&s->arena, walls, (s->mode_count + 1) * turns));
    for (int i = -1; i < turns; i++) /* the first turn does not count */
        for (int mode = 0; mode <= s->mode_count; mode++) {
            SAMBA_TRY(samba_replicas_wait(s->context));
            SAMBA_TRY(run_step(r, mode ? &s->modes[mode - 1] : NULL, &walls[mode * turns + (i < 0 ? 0 : i)]));
        }
    for (int i = turns; i < (s->mode_count + 1) * turns; i++)
        walls[i] /= walls[i % turns];
    for (int mode = 0; mode <= s->mode_count; mode++)
        medians[mode] = median_of(walls + mode * turns, turns);
    SAMBA_TRY(average(s, medians, s->mode_count + 1));
    for (int mode = 0; mode < s->mode_count; mode++)
        s->measured[mode] = medians[0] * medians[mode + 1];
    samba_scaling_fit(&s->scaling, medians[0]);
    return SAMBA_OK;
}

/* ---- the network beside sections ---- */
typedef struct stream {
    samba_context *context; /* its own: the other thread has the session's */
    const samba_world *world;
    double seconds, bandwidth;
    samba_status status;
    atomic_bool done;
} stream;

static void *run_stream(void *argument)
{
    stream *s = argument;
    s->status = samba_network_stream(s->context, s->world, s->seconds, &s->bandwidth);
    atomic_store(&s->done, true);
    return NULL;
}

/* What steps and the network take from each other while both are at work: no exchange, but as much traffic as there can be. */
static samba_status run_beside(runner *r, stream *other)
{
    pthread_t thread;
    int count = 0;
    double step = 0;
    if (pthread_create(&thread, NULL, run_stream, other) != 0)
        return samba_fail(r->scale->context, SAMBA_ERROR_MEMORY, "the system gives no thread to measure the network by");
    samba_status status = SAMBA_OK;
    while (status == SAMBA_OK && !atomic_load(&other->done) && count < r->steps) {
        const double start = samba_seconds();
        for (int32_t k = 0; k < r->scale->scaling.runs && status == SAMBA_OK; k++)
            status = samba_run(r->session, &r->run);
        step = samba_seconds() - start;
        if (!atomic_load(&other->done) || count == 0)
            r->walls[count++] = step;
    }
    pthread_join(thread, NULL);
    SAMBA_TRY(status);
    return other->status == SAMBA_OK ? SAMBA_OK
                                     : samba_fail(r->scale->context, other->status, "%s", samba_error_message(other->context));
}

static samba_status measure_beside(runner *r)
{
    samba_scale *s = r->scale;
    samba_network_cost *cost = &s->networks[0].cost;
    const double alone = samba_scaling_alone(&s->scaling);
    stream other = {.seconds = BESIDE_STEPS * alone > 1 ? BESIDE_STEPS * alone : 1};
    double beside[2] = {0}; /* shares: of the step's speed, of the network's */
    SAMBA_TRY(samba_world_find(s->context, &other.world));
    SAMBA_TRY(samba_context_new(NULL, &other.context));
    samba_status status = samba_replicas_wait(s->context);
    memset(r->walls, 0, sizeof *r->walls * (size_t)r->steps);
    if (status == SAMBA_OK)
        status = run_beside(r, &other);
    samba_context_free(other.context);
    SAMBA_TRY(status);
    int count = 0;
    while (count < r->steps && r->walls[count] > 0)
        count++;
    beside[0] = alone / median_of(r->walls, count);
    beside[1] = other.bandwidth / cost->bandwidth;
    SAMBA_TRY(average(s, beside, 2));
    cost->processor = beside[0] < 1 ? 1 - beside[0] : 0;
    cost->beside = beside[1] < 1 ? beside[1] : 1;
    return SAMBA_OK;
}

/* ---- where times come from ---- */
static samba_status read_times(samba_scale *s)
{
    char name[SAMBA_SHOWN];
    samba_report report = {.plan = &s->plan};
    double *seconds;
    bool any = false;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, seconds, s->plan.section_count + 1));
    SAMBA_TRY(samba_trace_read(s->context, s->arguments->profile, &s->plan, &s->arena, &report));
    for (int32_t i = 0; i < s->scaling.count; i++) {
        const int32_t section = s->scaling.sections[i].section;
        seconds[section] = samba_time_mean(&report.sections[section]);
        any = any || seconds[section] > 0;
    }
    if (!any)
        return samba_fail(
            s->context, SAMBA_ERROR_ARGUMENT,
            "--profile %.256s has no time of a section of this graph: write it by run --profile summary --trace FILE",
            s->arguments->profile);
    samba_scaling_set_times(&s->scaling, seconds, 0);
    snprintf(s->times, sizeof s->times, "sections as %.255s has them", samba_shown(s->arguments->profile, name));
    return SAMBA_OK;
}

static samba_status reckon_times(samba_scale *s)
{
    const samba_cli_arguments *a = s->arguments;
    char flops[SAMBA_CELL], bytes[SAMBA_CELL];
    double *seconds;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, seconds, s->plan.section_count + 1));
    for (int32_t i = 0; i < s->scaling.count; i++)
        seconds[s->scaling.sections[i].section] =
            samba_scaling_roof(&s->plan, s->scaling.sections[i].section, a->flops, a->memory_rate);
    samba_scaling_set_times(&s->scaling, seconds, 0);
    snprintf(s->times, sizeof s->times, "not run: each stage takes the longer of its FLOPs at %s and its bytes at %s",
             samba_text_decimal(flops, a->flops, "FLOP/s"), samba_text_decimal(bytes, a->memory_rate, "B/s"));
    return SAMBA_OK;
}

/* ---- networks and rows ---- */
static samba_status find_networks(samba_scale *s)
{
    const samba_cli_arguments *a = s->arguments;
    if (a->measure && s->self.size == 1)
        return samba_fail(s->context, SAMBA_ERROR_ARGUMENT,
                          "--measure: this process is the only replica: start it by mpirun -n 2 sambaflow scale ...");
    if (a->measure) {
        const samba_world *world;
        samba_cli_network *network = &s->networks[s->network_count++];
        *network = (samba_cli_network){.name = "measured", .words = "measured between the replicas of this launch"};
        SAMBA_TRY(samba_world_find(s->context, &world));
        SAMBA_TRY(samba_network_measure(s->context, world, &network->cost));
    }
    for (int i = 0; i < a->network_count; i++)
        s->networks[s->network_count++] = a->networks[i];
    for (int i = 0; i < SAMBA_COUNT(default_networks) && !a->measure && a->network_count == 0; i++)
        if (!samba_cli_network_take(default_networks[i], &s->networks[s->network_count++]))
            return samba_fail(s->context, SAMBA_ERROR_INTERNAL, "a network without figures");
    return SAMBA_OK;
}

static samba_status add_row(samba_scale *s, int network, int replicas, samba_replica_mode mode)
{
    samba_scale_row *row = &s->rows[s->row_count++];
    row->network = network;
    row->how = (samba_scaling_how){replicas, mode, s->arguments->sharded_optimizer, s->arguments->reduce_dtype == 1};
    return samba_scaling_step(s->context, &s->scaling, &s->networks[network].cost, &row->how, &row->result);
}

static samba_status fill_rows(samba_scale *s)
{
    const samba_cli_arguments *a = s->arguments;
    const int *replicas = a->replica_count ? a->replicas : default_replicas,
              count = a->replica_count ? a->replica_count : DEFAULTS;
    bool own = false; /* the list has this launch's number of replicas */
    for (int i = 0; i < count; i++)
        own = own || replicas[i] == s->self.size;
    SAMBA_TRY(SAMBA_ROOM(&s->arena, s->rows, (count + 1) * s->mode_count * s->network_count));
    for (int network = 0; network < s->network_count; network++)
        for (int mode = 0; mode < s->mode_count; mode++) {
            const bool here = a->measure && network == 0;
            for (int i = here && !own ? -1 : 0; i < count; i++) {
                const int number = i < 0 ? s->self.size : replicas[i];
                SAMBA_TRY(add_row(s, network, number, s->modes[mode]));
                if (here && number == s->self.size)
                    s->rows[s->row_count - 1].measured = s->measured[mode];
            }
        }
    return SAMBA_OK;
}

/* ---- the command ---- */
static samba_status find_graph(const samba_scale *s, int32_t *graph)
{
    *graph = samba_plan_graph_named(&s->plan, s->arguments->graph_name);
    if (*graph >= 0)
        return SAMBA_OK;
    samba_words words = {.used = 0};
    for (int32_t i = 0; i < s->plan.graph_count; i++)
        samba_words_add(&words, s->plan.graphs[i].name);
    return s->arguments->graph_name
               ? samba_fail(s->context, SAMBA_ERROR_NAME, "there is no graph \"%.128s\"; the PEF's are: %s",
                            s->arguments->graph_name, samba_words_text(&words))
               : samba_fail(s->context, SAMBA_ERROR_ARGUMENT, "the PEF has %d graphs, say which by --graph-name: %s",
                            s->plan.graph_count, samba_words_text(&words));
}

static samba_status find_times(runner *r)
{
    const samba_cli_arguments *a = r->scale->arguments;
    if (a->flops > 0)
        return reckon_times(r->scale);
    if (a->profile)
        return read_times(r->scale);
    SAMBA_TRY(open_runner(r));
    return measure_sections(r);
}

static samba_status write_svg(const samba_scale *s)
{
    samba_text svg;
    samba_text_init(&svg, s->context);
    samba_status status = samba_scale_draw(s, &svg);
    const void *part = svg.data;
    const size_t size = (size_t)svg.length;
    if (status == SAMBA_OK)
        status = samba_file_write_atomic(s->context, s->arguments->svg, &part, &size, 1);
    samba_text_clear(&svg);
    return status;
}

static samba_status work(samba_scale *s, runner *r)
{
    const samba_cli_arguments *a = s->arguments;
    SAMBA_TRY(samba_pef_read(s->context, a->pef, &s->plan));
    if (a->svg)
        SAMBA_TRY(samba_check_output(s->context, "--svg", a->svg, a->pef));
    SAMBA_TRY(find_graph(s, &r->graph));
    SAMBA_TRY(samba_scaling_find(s->context, &s->plan, r->graph, &s->arena, &s->scaling));
    if (a->sharded_optimizer) {
        bool scatters = false;
        SAMBA_TRY(samba_shard_scatters(s->context, &s->arena, &s->plan, r->graph, &scatters));
        s->scaling.norms = !scatters;
    }
    SAMBA_TRY(samba_replicas_find(s->context, &s->self));
    SAMBA_TRY(find_networks(s));
    SAMBA_TRY(find_times(r));
    if (a->measure && r->session) {
        SAMBA_TRY(measure_beside(r));
        SAMBA_TRY(measure_modes(r));
    }
    SAMBA_TRY(fill_rows(s));
    if (s->self.rank > 0)
        return SAMBA_OK;
    SAMBA_TRY(a->json ? samba_scale_print_json(s) : samba_scale_print(s));
    return a->svg ? write_svg(s) : SAMBA_OK;
}

samba_status samba_cli_scale(samba_context *context, const samba_cli_arguments *arguments)
{
    samba_scale s = {.context = context, .arguments = arguments};
    runner r = {.scale = &s, .steps = arguments->num_iterations ? (int)arguments->num_iterations : STEPS};
    s.mode_count = arguments->mode_count ? arguments->mode_count : 1;
    for (int i = 0; i < s.mode_count; i++)
        s.modes[i] = arguments->mode_count ? arguments->modes[i] : SAMBA_MODE_INORDER;
    samba_arena_init(&s.arena, context);
    samba_plan_init(&s.plan, context);
    samba_status status = work(&s, &r);
    if (r.exchanging != r.session)
        samba_session_free(r.exchanging);
    samba_session_free(r.session);
    samba_io_free(&r.io);
    samba_plan_free(&s.plan);
    samba_arena_free(&s.arena);
    return status;
}
