/* SPDX-License-Identifier: Apache-2.0
 *
 * The session from its making to its end, and the facts it tells of its PEF. Making one reads the file, opens the device, gives
 * it memory, constants, hyperparameters and initial weights, and has it build the sections. If a step fails, samba_session_free
 * frees a session in any state between.
 *
 * The session owns the plan, the device and its arena. The context is the caller's and outlives it. */
#include "base/team.h"
#include "runtime/runtime.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 4096

samba_session_options samba_session_defaults(void)
{
    return (samba_session_options){.struct_size = sizeof(samba_session_options)};
}

/* ---- making ---- */
/* Replicas of one machine part its processors, unless their environment says how many threads each has. */
static int share_of(const samba_session *session, int offered)
{
    if (getenv("OMP_NUM_THREADS"))
        return offered;
    const int share = offered / samba_session_sharers(session);
    return share > 0 ? share : 1;
}

static samba_status open_device(samba_session *session, const samba_session_options *options)
{
    static const samba_device_interface *const devices[] = {&samba_device_cpu, &samba_device_null};
    const char *name = options->device ? options->device : devices[0]->name;
    samba_words words = {.used = 0};
    if (options->threads < 0 || options->threads > MOST_THREADS)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "%d threads: give 1 to %d, or 0 for as many as OpenMP offers",
                          options->threads, MOST_THREADS);
    session->threads = options->threads > 0 ? options->threads : share_of(session, samba_team_offered());
    samba_device_options device = {session->context, session->threads, options->isa};
    for (int i = 0; i < SAMBA_COUNT(devices); i++) {
        if (strcmp(devices[i]->name, name) == 0)
            return devices[i]->open(&device, &session->device);
        samba_words_add(&words, devices[i]->name);
    }
    return samba_fail(session->context, SAMBA_ERROR_UNSUPPORTED, "there is no device \"%.64s\"; devices are: %s", name,
                      samba_words_text(&words));
}

static bool is_scalar_loss(const samba_plan_tensor *tensor)
{
    for (int32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] != 1)
            return false;
    return tensor->is_loss && samba_dtype_is_floating_point((samba_dtype)tensor->dtype);
}

static samba_status make_room(samba_session *session)
{
    const samba_plan *plan = &session->plan;
    samba_arena *arena = &session->arena;
    size_t tensors = (size_t)plan->tensor_count, argins = (size_t)plan->argin_count;
    SAMBA_TRY(SAMBA_ROOM(arena, session->argins, argins));
    SAMBA_TRY(SAMBA_ROOM(arena, session->bad_inputs, tensors));
    SAMBA_TRY(SAMBA_ROOM(arena, session->candidates, tensors > 2 * argins ? tensors : 2 * argins));
    SAMBA_TRY(SAMBA_ROOM(arena, session->losses, tensors));
    SAMBA_TRY(SAMBA_ROOM(arena, session->graphs, plan->graph_count));
    SAMBA_TRY(SAMBA_ROOM(arena, session->undrawn, tensors + 1));
    SAMBA_TRY(SAMBA_ROOM(arena, session->copies, tensors));
    session->graph = -1;
    SAMBA_TRY(samba_select_begin(session));
    SAMBA_TRY(samba_given_begin(session));
    for (int32_t i = 0; i < plan->tensor_count; i++)
        if (is_scalar_loss(&plan->tensors[i]))
            session->losses[session->loss_count++].tensor = i;
    SAMBA_TRY(SAMBA_GROW(session->context, session->list, session->list_room, plan->call_count));
    int32_t duplicate; /* none: the plan was checked */
    SAMBA_TRY(samba_names_build(&session->tensors, session->context, plan->tensors, sizeof *plan->tensors, plan->tensor_count,
                                &duplicate));
    return samba_sizes_begin(session);
}

static samba_status fill_memory(samba_session *session, int64_t resident)
{
    const samba_plan *plan = &session->plan;
    samba_device *device = session->device;
    SAMBA_TRY(device->interface->allocate(device, plan, resident));
    for (int32_t i = 0; i < plan->constant_count; i++)
        SAMBA_TRY(device->interface->write(device, samba_session_offset(session, plan->constants[i].buffer),
                                           plan->blobs[plan->constants[i].blob]->data,
                                           (size_t)plan->blobs[plan->constants[i].blob]->size));
    SAMBA_TRY(samba_hyper_start(session));
    samba_weights_begin(session);
    return SAMBA_OK;
}

static samba_status check_replica_options(samba_session *session, const samba_session_options *options)
{
    const char *dtype = options->reduce_dtype ? options->reduce_dtype : "float32";
    session->shards_optimizer = options->shard_optimizer;
    session->rounds_gradients = strcmp(dtype, "bfloat16") == 0;
    if (!session->rounds_gradients && strcmp(dtype, "float32") != 0)
        return samba_fail(session->context, SAMBA_ERROR_NAME, "reduce_dtype is \"%.64s\": expected float32 or bfloat16", dtype);
    if (!options->data_parallel && (options->shard_optimizer || options->reduce_dtype))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "%s says how replicas train together: give the session data_parallel, too",
                          options->shard_optimizer ? "shard_optimizer" : "reduce_dtype");
    return SAMBA_OK;
}

static samba_status start(samba_session *session, int64_t resident, const samba_session_options *options)
{
    SAMBA_TRY(check_replica_options(session, options));
    SAMBA_TRY(make_room(session));
    SAMBA_TRY(samba_reuse_begin(session, options));
    if (options->data_parallel)
        SAMBA_TRY(samba_session_join(session));
    SAMBA_TRY(open_device(session, options));
    SAMBA_TRY(fill_memory(session, session->in_place ? resident : session->plan.memory_bytes));
    SAMBA_TRY(samba_tune_begin(session->context, &session->arena, session->device, &session->plan, session->threads,
                               options->tune, &session->tuned));
    SAMBA_TRY(session->device->interface->build(session->device, &session->plan));
    samba_tune_settle(session->device, &session->tuned);
    return SAMBA_OK;
}

samba_status samba_session_of_plan(samba_context *context, samba_plan *plan, int64_t resident, const char *source,
                                   const samba_session_options *options, samba_session **session)
{
    *session = NULL;
    samba_session *fresh = samba_calloc(context, sizeof *fresh);
    if (!fresh) {
        samba_plan_free(plan);
        return SAMBA_ERROR_MEMORY;
    }
    fresh->context = context;
    fresh->seed = options->seed;
    fresh->plan = *plan;
    fresh->source = source;
    fresh->in_place = resident < fresh->plan.memory_bytes;
    samba_plan_init(plan, context);
    samba_arena_init(&fresh->arena, context);
    samba_status status = start(fresh, resident, options);
    if (status == SAMBA_OK)
        *session = fresh;
    else
        samba_session_free(fresh);
    return status;
}

/* A tune file that was asked for by name has to be there; what is in it may be anything. */
static samba_status find_file(samba_context *context, const char *path)
{
    if (access(path, R_OK) == 0)
        return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_FILE,
                      "cannot read the tune file \"%.200s\": %s; give one that `sambaflow tune` wrote, or \"off\"", path,
                      strerror(errno));
}

samba_status samba_session_new(samba_context *context, const char *pef_path, const samba_session_options *given,
                               samba_session **session)
{
    SAMBA_NEED(NULL, context);
    samba_session_options options = samba_session_defaults();
    if (!session)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_session_new was given no place for the session");
    *session = NULL;
    if (!pef_path)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_session_new was given no path of a PEF");
    if (given)
        SAMBA_TRY(samba_options_take(context, "samba_session_new", given, sizeof options, &options));
    samba_plan plan;
    samba_plan_init(&plan, context);
    samba_status status = samba_pef_read(context, pef_path, &plan);
    if (status == SAMBA_OK && options.tune && strcmp(options.tune, SAMBA_TUNE_OFF) != 0)
        status = find_file(context, options.tune);
    if (status == SAMBA_OK)
        status = samba_tune_file(&plan.arena, pef_path, options.tune, &options.tune);
    if (status != SAMBA_OK) {
        samba_plan_free(&plan);
        return status;
    }
    return samba_session_of_plan(context, &plan, plan.memory_bytes, "PEF", &options, session);
}

void samba_session_free(samba_session *session)
{
    if (!session)
        return;
    samba_session_part(session);
    if (session->device)
        session->device->interface->close(session->device);
    samba_profiler_free(session);
    samba_names_free(&session->tensors);
    samba_free(session->context, session->list, (size_t)session->list_room * sizeof *session->list);
    samba_arena_free(&session->arena);
    samba_plan_free(&session->plan);
    samba_free(session->context, session, sizeof *session);
}

/* ---- telling ---- */
static samba_status check_info(const samba_session *session, const char *what, int index, int count, const void *info)
{
    if (!session)
        return SAMBA_ERROR_ARGUMENT; /* nobody holds the message */
    if (!info)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_%s_info was given no place for what it tells",
                          what);
    if (index < 0 || index >= count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "there is no %s %d: the PEF has %d", what, index, count);
    return SAMBA_OK;
}

int samba_session_tensor_count(const samba_session *session) { return session ? session->plan.tensor_count : 0; }

samba_status samba_session_tensor_info(const samba_session *session, int index, samba_tensor_info *info)
{
    SAMBA_TRY(check_info(session, "tensor", index, samba_session_tensor_count(session), info));
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    *info = (samba_tensor_info){.name = tensor->name,
                                .kind = (samba_tensor_kind)tensor->kind,
                                .dtype = (samba_dtype)tensor->dtype,
                                .rank = tensor->rank,
                                .bytes = (int64_t)samba_dtype_size((samba_dtype)tensor->dtype)};
    for (int32_t i = 0; i < tensor->rank; i++) {
        info->shape[i] = tensor->shape[i];
        info->bytes *= tensor->shape[i]; /* checked with the plan */
    }
    return SAMBA_OK;
}

samba_status samba_session_start(const samba_session *session, const char *output, double *start)
{
    int32_t tensor;
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, output);
    SAMBA_NEED(session->context, start);
    SAMBA_TRY(samba_session_find(session, output, SAMBA_KIND_OUTPUT, &tensor));
    if (!samba_plan_start(&session->plan, tensor, start))
        *start = NAN;
    return SAMBA_OK;
}

int samba_session_section_count(const samba_session *session) { return session ? session->plan.section_count : 0; }

int samba_session_call_count(const samba_session *session) { return session ? session->plan.graphs[0].call_count : 0; }

int samba_session_graph_count(const samba_session *session) { return session ? session->plan.graph_count : 0; }

samba_status samba_session_graph_info(const samba_session *session, int index, samba_graph_info *info)
{
    SAMBA_TRY(check_info(session, "graph", index, samba_session_graph_count(session), info));
    const samba_plan_graph *graph = &session->plan.graphs[index];
    *info = (samba_graph_info){.name = graph->name,
                               .text = graph->text,
                               .inference = graph->inference != 0,
                               .grad_accumulation_steps = graph->grad_accumulation_steps,
                               .first_section = graph->first_section,
                               .section_count = graph->section_count,
                               .call_count = graph->call_count};
    return SAMBA_OK;
}

samba_status samba_session_literal(const samba_session *session, int index, int64_t number, samba_literal *literal)
{
    SAMBA_NEED(NULL, session);
    if (!literal)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_literal was given no place for what it tells");
    const int64_t count = samba_session_literal_count(session, index);
    if (number < 0 || number >= count)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "there is no literal %lld beside the text of graph %d: it has %lld", (long long)number, index,
                          (long long)count);
    const samba_blob *blob = session->plan.blobs[session->plan.graphs[index].literals[number]];
    *literal = (samba_literal){blob->data, blob->size};
    return SAMBA_OK;
}

int64_t samba_session_literal_count(const samba_session *session, int index)
{
    return session && index >= 0 && index < session->plan.graph_count ? session->plan.graphs[index].literal_count : 0;
}

bool samba_session_graph_has(const samba_session *session, int index, const char *name)
{
    if (!session)
        return false;
    int32_t tensor = name ? samba_names_find(&session->tensors, name) : -1;
    return tensor >= 0 && index >= 0 && index < session->plan.graph_count &&
           samba_plan_has_tensor(&session->plan.graphs[index], tensor);
}

samba_status samba_session_section_info(const samba_session *session, int index, samba_section_info *info)
{
    SAMBA_TRY(check_info(session, "section", index, samba_session_section_count(session), info));
    const samba_plan_section *section = &session->plan.sections[index];
    *info = (samba_section_info){section->id,
                                 samba_section_type(section),
                                 section->stage_count,
                                 section->flops,
                                 section->bytes,
                                 section->redone_by > 0 ? samba_section_type_names[section->redone_by] : NULL,
                                 samba_plan_graph_of(&session->plan, index),
                                 section->name,
                                 section->fast_memory,
                                 section->forward_stages};
    return SAMBA_OK;
}

static void add_device_memory(const samba_device *device, samba_memory_info *memory)
{
    memory->scratch += device->scratch; /* depends on this machine's threads and kernels: known since load */
    memory->constants += device->kept;  /* packed for this machine's kernels */
    memory->total += device->scratch + device->kept;
}

samba_status samba_session_memory(const samba_session *session, samba_memory_info *memory)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, memory);
    *memory = session->plan.memory;
    add_device_memory(session->device, memory);
    memory->scratch += samba_session_rest_bytes(session);
    memory->total += samba_session_rest_bytes(session);
    return SAMBA_OK;
}

samba_status samba_plan_memory(samba_context *context, const samba_plan *plan, int threads, const char *isa,
                               samba_memory_info *memory, int *used, const char **isa_used)
{
    samba_arena arena;
    samba_plan_here here;
    samba_arena_init(&arena, context);
    samba_status status = samba_plan_prepare(context, &arena, plan, threads, isa, NULL, &here);
    *memory = here.memory, *used = here.threads, *isa_used = here.isa;
    samba_arena_free(&arena);
    return status;
}

samba_status samba_plan_prepare(samba_context *context, samba_arena *arena, const samba_plan *plan, int threads, const char *isa,
                                const char *tune, samba_plan_here *here)
{
    *here = (samba_plan_here){.threads = threads > 0 ? threads : samba_team_offered()};
    samba_device_options options = {context, here->threads, isa};
    samba_device *device;
    SAMBA_TRY(SAMBA_ROOM(arena, here->roads, plan->stage_count));
    SAMBA_TRY(samba_device_cpu.open(&options, &device));
    samba_status status = samba_tune_begin(context, arena, device, plan, here->threads, tune, &here->tuned);
    if (status == SAMBA_OK)
        status = device->interface->measure(device, plan);
    if (status == SAMBA_OK) {
        samba_tune_settle(device, &here->tuned);
        here->isa = device->isa;
        here->memory = plan->memory;
        add_device_memory(device, &here->memory);
        for (int32_t i = 0; i < plan->stage_count; i++)
            here->roads[i] = device->interface->road(device, i);
    }
    device->interface->close(device);
    return status;
}

samba_status samba_session_tuning(const samba_session *session, samba_tuning *tuning)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, tuning);
    *tuning =
        (samba_tuning){session->tuned.path, session->tuned.count, session->tuned.warning[0] ? session->tuned.warning : NULL};
    return SAMBA_OK;
}

const char *samba_session_mapping(const samba_session *session, int graph)
{
    if (!session)
        return NULL;
    return graph >= 0 && graph < session->plan.graph_count ? samba_mapping_names[session->plan.graphs[graph].mapping == 1] : NULL;
}

const char *samba_session_graph_name(const samba_session *session) { return session ? session->plan.graphs[0].name : ""; }

const char *samba_session_graph_text(const samba_session *session) { return session ? session->plan.graphs[0].text : NULL; }

int samba_session_threads(const samba_session *session) { return session ? session->threads : 0; }

const char *samba_session_isa(const samba_session *session) { return session ? session->device->isa : ""; }
