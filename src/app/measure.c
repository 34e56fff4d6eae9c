/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring a session: whole steps, and section by section. Medians of warm ones, so that one interruption does not count; every
 * step is a real one and changes weights as training does, unless only FWD is measured.
 * Times are allocated before the first run. */
#include "base/busy.h"
#include "base/null.h"
#include "app/app.h"
#include "runtime/runtime.h"
#include <sambaflow/profile.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

samba_measure_options samba_measure_defaults(void)
{
    return (samba_measure_options){.struct_size = sizeof(samba_measure_options), .iterations = 100, .train = true};
}

static samba_status check_options(samba_context *context, const samba_measure_options *options)
{
    if (options->struct_size != sizeof *options)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "measure: options must start from samba_measure_defaults() of this version's header");
    return SAMBA_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Steps that are measured, warm-up aside: whoever shows progress looks from a thread of its own,
 * so that measuring waits for nobody. */
static void tell(const samba_measure_options *options, int64_t done)
{
    if (options->done && done >= 0)
        __atomic_store_n(options->done, done, __ATOMIC_RELAXED);
}

static int64_t iterations_of(const samba_measure_options *options) { return options->iterations > 0 ? options->iterations : 100; }

static int64_t warm_up_of(int64_t iterations) { return iterations / 10 > 3 ? iterations / 10 : 3; }

static const char *const forward[] = {"FWD"};

static samba_run_options run_options(const samba_measure_options *options)
{
    samba_run_options run = samba_run_defaults();
    run.graph_name = options->graph_name;
    run.train = options->train && !options->inference;
    if (options->inference) {
        run.section_types = forward;
        run.section_type_count = 1;
    }
    return run;
}

/* ARGUMENT, NAME: as a run says it. */
static samba_status find_graph(const samba_session *session, const samba_measure_options *options, samba_graph_info *graph)
{
    int32_t index;
    SAMBA_TRY(samba_select_graph(session, options->graph_name, options->input_count, options->inputs, &index));
    return samba_session_graph_info(session, index, graph);
}

static samba_status set_inputs(samba_session *session, const samba_measure_options *options)
{
    for (int i = 0; i < options->input_count; i++)
        SAMBA_TRY(samba_session_set(session, options->inputs[i]));
    return SAMBA_OK;
}

static int runs_of(const samba_measure_options *options) { return options->runs > 1 && !options->inference ? options->runs : 1; }

/* Leaves of a section that is FWD and BCKWD in one what is FWD's. */
static samba_status count_forward(const samba_session *session, samba_section_info *section)
{
    int left = section->forward_stages;
    section->type = forward[0];
    section->stage_count = left;
    section->flops = section->bytes = 0;
    for (int i = 0; i < samba_session_stage_count(session) && left > 0; i++) {
        samba_stage_info stage;
        SAMBA_TRY(samba_session_stage_info(session, i, &stage));
        if (stage.section != section->id)
            continue;
        section->flops += stage.flops;
        section->bytes += stage.bytes;
        left--;
    }
    return SAMBA_OK;
}

/* FWD and BCKWD in every run of a step, the others once. */
static samba_status count_work(const samba_session *session, const samba_measure_options *options, samba_performance *performance)
{
    samba_graph_info graph;
    SAMBA_TRY(find_graph(session, options, &graph));
    for (int i = graph.first_section; i < graph.first_section + graph.section_count; i++) {
        samba_section_info section;
        SAMBA_TRY(samba_session_section_info(session, i, &section));
        if (options->inference && section.forward_stages > 0)
            SAMBA_TRY(count_forward(session, &section));
        else if (options->inference ? strcmp(section.type, forward[0]) != 0 : section.redone_by != NULL)
            continue;
        bool each = strncmp(section.type, "FWD", 3) == 0 || strcmp(section.type, "BCKWD") == 0;
        performance->flops += section.flops * (each ? runs_of(options) : 1);
        performance->bytes += section.bytes * (each ? runs_of(options) : 1);
    }
    return SAMBA_OK;
}

static samba_status time_steps(samba_session *session, const samba_measure_options *options, const samba_run_options *run,
                               double *times, int64_t iterations)
{
    for (int64_t i = -warm_up_of(iterations); i < iterations; i++) {
        if (i == 0)
            samba_session_reset_stats(session);
        double start = samba_seconds();
        for (int k = 0; k < runs_of(options); k++)
            SAMBA_TRY(samba_run(session, run));
        if (i >= 0)
            times[i] = 1e3 * (samba_seconds() - start);
        tell(options, i + 1);
    }
    return SAMBA_OK;
}

samba_status samba_measure_performance(samba_context *context, samba_session *session, const samba_measure_options *options,
                                       samba_performance *performance)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, session);
    SAMBA_NEED(context, options);
    SAMBA_NEED(context, performance);
    SAMBA_TRY(check_options(context, options));
    int64_t iterations = iterations_of(options);
    samba_performance p = {
        .threads = samba_session_threads(session), .iterations = iterations, .batch_size = options->batch_size};
    if (p.batch_size == 0 && options->input_count > 0 && samba_tensor_rank(options->inputs[0]) > 0)
        p.batch_size = samba_tensor_shape(options->inputs[0])[0] * runs_of(options);
    samba_run_options run = run_options(options);
    SAMBA_TRY(set_inputs(session, options));
    if (!options->run_graph_only) {
        run.input_count = options->input_count;
        run.inputs = options->inputs;
        run.output_count = options->output_count;
        run.outputs = options->outputs;
    }
    SAMBA_TRY(count_work(session, options, &p));
    double *times = samba_alloc(context, sizeof *times * (size_t)iterations);
    if (!times)
        return SAMBA_ERROR_MEMORY;
    const samba_busy_mark begin = samba_busy_begin();
    samba_status status = time_steps(session, options, &run, times, iterations);
    if (status == SAMBA_OK) {
        p.others = samba_busy_others(&begin);
        samba_run_stats stats;
        samba_session_stats(session, &stats);
        p.median_ms = median_of(times, iterations);
        p.best_ms = times[0];
        p.outside_kernels_ms = 1e3 * (stats.total_seconds - stats.kernel_seconds) / (double)iterations;
    }
    samba_free(context, times, sizeof *times * (size_t)iterations);
    SAMBA_TRY(status);

    samba_memory_info memory;
    SAMBA_TRY(samba_session_memory(session, &memory));
    p.planned_bytes = memory.total;
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        p.peak_resident_bytes = (int64_t)usage.ru_maxrss * 1024;
    double seconds = p.median_ms / 1e3;
    p.samples_per_second = (double)p.batch_size / seconds;
    p.flops_per_second = (double)p.flops / seconds;
    p.bytes_per_second = (double)p.bytes / seconds;
    p.peak_flops_per_second = samba_measure_fma_peak(p.threads);
    p.mfu = p.flops_per_second / p.peak_flops_per_second;
    *performance = p;
    return SAMBA_OK;
}

/* With inference those of FWD: where FWD and BCKWD are one section it is all of FWD, and runs by the type. */
static bool is_timed(const samba_measure_options *options, const samba_section_time *time)
{
    return !options->inference || strcmp(time->section.type, forward[0]) == 0;
}

/* Section by section in order, again and again, so that each finds the caches as it does in a step. */
static samba_status time_sections(samba_session *session, const samba_measure_options *options, int count,
                                  const samba_section_time *sections, double *times, int64_t iterations)
{
    samba_run_options run = samba_run_defaults();
    run.graph_name = options->graph_name;
    run.train = options->train && !options->inference;
    run.section_types = forward;
    for (int64_t i = -warm_up_of(iterations); i < iterations; i++) {
        for (int k = 0; k < count; k++) {
            if (!is_timed(options, &sections[k]))
                continue;
            bool part = options->inference && sections[k].section.forward_stages > 0;
            run.section_type_count = part;
            run.section_id_count = !part;
            run.section_ids = &sections[k].section.id;
            samba_session_reset_stats(session);
            SAMBA_TRY(samba_run(session, &run));
            samba_run_stats stats;
            samba_session_stats(session, &stats);
            if (i >= 0)
                times[k * iterations + i] = 1e3 * stats.kernel_seconds;
        }
        tell(options, i + 1);
    }
    return SAMBA_OK;
}

samba_status samba_measure_sections(samba_context *context, samba_session *session, const samba_measure_options *options,
                                    samba_section_time *times)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, session);
    SAMBA_NEED(context, options);
    SAMBA_NEED(context, times);
    SAMBA_TRY(check_options(context, options));
    samba_graph_info graph;
    SAMBA_TRY(find_graph(session, options, &graph));
    int64_t iterations = iterations_of(options), cells;
    for (int i = 0; i < samba_session_section_count(session); i++) {
        times[i] = (samba_section_time){0};
        SAMBA_TRY(samba_session_section_info(session, i, &times[i].section));
    }
    int count = graph.section_count;
    times += graph.first_section;
    for (int i = 0; i < count && options->inference; i++) {
        times[i].section.redone_by = NULL; /* FWD alone leaves nothing to another section */
        if (times[i].section.forward_stages > 0)
            SAMBA_TRY(count_forward(session, &times[i].section));
    }
    if (!samba_mul_checked(iterations, count * (int64_t)sizeof(double), &cells))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "%lld iterations are more than memory can hold: give fewer",
                          (long long)iterations);
    SAMBA_TRY(set_inputs(session, options));
    double *all = samba_alloc(context, (size_t)cells), total = 0;
    if (!all)
        return SAMBA_ERROR_MEMORY;
    samba_status status = time_sections(session, options, count, times, all, iterations);
    for (int i = 0; status == SAMBA_OK && i < count; i++) {
        if (!is_timed(options, &times[i]))
            continue;
        times[i].median_ms = median_of(all + i * iterations, iterations);
        times[i].best_ms = all[i * iterations];
        total += times[i].section.redone_by ? 0 : times[i].median_ms;
    }
    samba_free(context, all, (size_t)cells);
    for (int i = 0; status == SAMBA_OK && i < count; i++)
        times[i].share = total > 0 && !times[i].section.redone_by ? times[i].median_ms / total : 0;
    return status;
}
