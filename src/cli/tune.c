/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow tune: measures which ways the stages of a PEF are the fastest by on this machine (runtime/tune_search.c), shows what
 * was found and writes it to PEF.tune. Inputs are random; learning rates are 0, so that hundreds of steps on them do not drive
 * the weights anywhere. The file is written also where nothing was better: it says so, and replaces an older one. */
#include "cli/cli.h"
#include "runtime/runtime.h"

#include <string.h>

typedef struct tuner {
    samba_context *context;
    const samba_cli_arguments *arguments;
    samba_arena arena;
    samba_plan plan;
    samba_session *session;
    samba_io *ios; /* one a graph */
    samba_run_options *runs;
    int run_count;
    samba_progress progress;
    samba_tune_phase phase; /* that was told last; SAMBA_TUNE_PHASES: none */
    samba_tune_result result;
} tuner;

/* ---- measuring ---- */

/* A step of every graph: as many runs as its gradients add up over. */
static samba_status make_runs(tuner *t)
{
    const samba_plan *plan = &t->plan;
    int count = 0;
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->ios, plan->graph_count));
    memset(t->ios, 0, (size_t)plan->graph_count * sizeof *t->ios);
    for (int32_t i = 0; i < plan->graph_count; i++)
        count += plan->graphs[i].grad_accumulation_steps > 1 ? plan->graphs[i].grad_accumulation_steps : 1;
    SAMBA_TRY(SAMBA_ROOM(&t->arena, t->runs, count));
    for (int32_t i = 0; i < plan->graph_count; i++) {
        const samba_plan_graph *graph = &plan->graphs[i];
        SAMBA_TRY(samba_io_new(t->context, plan, i, t->arguments->seed, &t->arena, &t->ios[i]));
        samba_run_options run = samba_run_defaults();
        run.graph_name = plan->graph_count > 1 ? graph->name : NULL;
        run.input_count = t->ios[i].input_count;
        run.inputs = t->ios[i].inputs;
        run.train = !graph->inference;
        for (int32_t k = 0; k < 1 || k < graph->grad_accumulation_steps; k++)
            t->runs[t->run_count++] = run;
    }
    return SAMBA_OK;
}

samba_status samba_cli_stop_learning(samba_session *session)
{
    for (int i = 0; i < samba_session_hyperparameter_count(session); i++) {
        samba_hyperparameter hyper;
        SAMBA_TRY(samba_session_hyperparameter(session, i, &hyper));
        size_t length = strlen(hyper.name);
        if (strcmp(hyper.name, "lr") != 0 && (length < 3 || strcmp(hyper.name + length - 3, ".lr") != 0))
            continue;
        hyper.value = 0;
        SAMBA_TRY(samba_session_set_hyperparameters(session, 1, &hyper));
    }
    return SAMBA_OK;
}

/* A bar on a terminal, elsewhere a line a phase and more seldom ones between. */
static void tell(void *to, samba_tune_phase phase, double share, int64_t ways, int64_t stages)
{
    static const char *const names[SAMBA_TUNE_PHASES] = {"trying", "confirming", "comparing whole steps"};
    tuner *t = to;
    char words[96];
    snprintf(words, sizeof words, phase == SAMBA_TUNE_WHOLE ? "%s" : "%s %lld ways of %lld stages", names[phase], (long long)ways,
             (long long)stages);
    samba_progress_share(&t->progress, share, words);
    if (phase != t->phase && !t->progress.bar)
        fprintf(stderr, "tune: %s\n", words);
    t->phase = phase;
}

static samba_status search(tuner *t)
{
    samba_session_options options = samba_cli_session(t->arguments);
    options.tune = SAMBA_TUNE_OFF;
    SAMBA_TRY(make_runs(t));
    SAMBA_TRY(samba_session_new(t->context, t->arguments->pef, &options, &t->session));
    if (t->arguments->load)
        SAMBA_TRY(samba_session_load(t->session, t->arguments->load));
    SAMBA_TRY(samba_cli_stop_learning(t->session));
    const samba_tune_options how = {t->arguments->seconds, t->run_count, t->runs, tell, t};
    samba_progress_begin(&t->progress, stderr, "tune", 1, 1);
    t->progress.lines = true;
    samba_status status = samba_tune_search(t->session, &how, &t->arena, &t->result);
    samba_progress_end(&t->progress);
    return status;
}

/* ---- telling ---- */

static const char *module_of(const samba_plan *plan, const samba_stage *stage)
{
    for (int32_t i = 0; i < stage->operator_count; i++) {
        int32_t word = plan->locations[stage->operators[i].location].module;
        if (word > 0)
            return plan->words[word];
    }
    return "";
}

static const char *phase_of(const samba_plan *plan, int32_t stage)
{
    for (int32_t i = 0; i < plan->section_count; i++)
        if (stage >= plan->sections[i].first_stage && stage < plan->sections[i].first_stage + plan->sections[i].stage_count)
            return samba_section_type(&plan->sections[i]);
    return "";
}

/* "panel, panel.rows 96" */
static const char *way_of(const samba_choice *choice, const char *road, char *text, size_t size)
{
    snprintf(text, size, "%s", road);
    for (int32_t i = 0; i < choice->figure_count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s.%s %g", used ? ", " : "", choice->figures[i].group, choice->figures[i].name,
                 choice->figures[i].value);
    }
    return text;
}

static samba_status print_findings(const tuner *t)
{
    const samba_tune *tune = &t->result.tune;
    samba_table table;
    if (tune->count == 0)
        return SAMBA_OK;
    samba_table_init(&table, t->context, "rrllllllrrr");
    samba_table_row(&table, "stage\talike\ttype\tkind\tsizes\tmodule\tmodel's road\tbest\tmodel ms\tbest ms\tgain");
    for (int32_t i = 0; i < t->result.finding_count; i++) {
        const samba_tune_finding *found = &t->result.findings[i];
        const samba_stage *stage = &t->plan.stages[found->stage];
        char name[SAMBA_SHOWN], domain[SAMBA_SHAPE_TEXT], way[256];
        samba_plan_domain(stage, domain, sizeof domain);
        samba_table_row(&table, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.4f\t%.4f\t%.1f %%", found->stage, found->stage_count,
                        phase_of(&t->plan, found->stage), samba_stage_kind_names[stage->kind], domain,
                        samba_shown(module_of(&t->plan, stage), name), found->model,
                        way_of(found->choice, found->best, way, sizeof way), found->model_ms, found->best_ms,
                        100 * (1 - found->best_ms / found->model_ms));
    }
    putchar('\n');
    return samba_table_print(&table, stdout, "");
}

static samba_status print(const tuner *t, const char *path)
{
    const samba_tune_result *r = &t->result;
    char model[SAMBA_CELL], tuned[SAMBA_CELL], name[SAMBA_SHOWN];
    printf("%s: %d threads, %s\n", samba_shown(t->arguments->pef, name), samba_session_threads(t->session),
           samba_session_isa(t->session));
    printf("%lld ways of %lld stages, %lld of them different, were tried in %d turns, the best confirmed in %d; noise %.1f %%\n",
           (long long)r->ways, (long long)r->stages, (long long)r->kinds, r->turns, r->confirming_turns, 100 * r->noise);
    if (r->untried > 0)
        printf("%lld of these ways were not tried: %g seconds were too few, about %.0f are enough (--seconds)\n",
               (long long)r->untried, t->arguments->seconds, r->enough_seconds);
    SAMBA_TRY(print_findings(t));
    if (r->tune.count > 0)
        printf("\nstep %s by the model, %s tuned: %.1f %% faster\n", samba_text_ms(model, r->model_ms),
               samba_text_ms(tuned, r->tuned_ms), 100 * (1 - r->tuned_ms / r->model_ms));
    else
        printf("step %s: %s\n", samba_text_ms(model, r->model_ms),
               r->dropped ? "stages were faster in other ways, but steps were not: the model decides"
                          : "no other way is faster beyond the noise: the model decides");
    printf("%s: %d choices\n", samba_shown(path, name), r->tune.count);
    return SAMBA_OK;
}

static json_t *finding_json(const tuner *t, int32_t index)
{
    const samba_tune_finding *found = &t->result.findings[index];
    const samba_stage *stage = &t->plan.stages[found->stage];
    char domain[SAMBA_SHAPE_TEXT];
    json_t *figures = json_object();
    for (int32_t i = 0; i < found->choice->figure_count; i++) {
        const samba_choice_figure *figure = &found->choice->figures[i];
        json_t *group = json_object_get(figures, figure->group);
        if (!group)
            json_object_set_new(figures, figure->group, group = json_object());
        json_object_set_new(group, figure->name, samba_json_number(figure->value));
    }
    samba_plan_domain(stage, domain, sizeof domain);
    return json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "stage", found->stage, "alike",
                     found->stage_count, "type", phase_of(&t->plan, found->stage), "kind", samba_stage_kind_names[stage->kind],
                     "sizes", domain, "module", module_of(&t->plan, stage), "model_road", found->model, "road", found->best,
                     "figures", figures, "model_ms", samba_json_number(found->model_ms), "best_ms",
                     samba_json_number(found->best_ms), "gain", samba_json_number(1 - found->best_ms / found->model_ms));
}

static samba_status print_json(const tuner *t, const char *path)
{
    const samba_tune_result *r = &t->result;
    json_t *list = json_array();
    for (int32_t i = 0; i < r->finding_count; i++)
        json_array_append_new(list, finding_json(t, i));
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:b, s:o}", "command", "tune",
                               "pef", t->arguments->pef, "file", path, "isa", samba_session_isa(t->session), "threads",
                               samba_session_threads(t->session), "stages", (json_int_t)r->stages, "ways", (json_int_t)r->ways,
                               "untried", (json_int_t)r->untried, "turns", r->turns, "confirming_turns", r->confirming_turns,
                               "noise", samba_json_number(r->noise), "model_ms", samba_json_number(r->model_ms), "tuned_ms",
                               samba_json_number(r->tuned_ms), "dropped", r->dropped, "choices", list);
    return samba_json_print(t->context, object, stdout);
}

static samba_status work(tuner *t, const char *path)
{
    SAMBA_TRY(samba_check_output(t->context, "--output", path, t->arguments->pef));
    SAMBA_TRY(samba_pef_read(t->context, t->arguments->pef, &t->plan));
    SAMBA_TRY(search(t));
    SAMBA_TRY(samba_tune_write(t->context, path, &t->result.tune));
    return t->arguments->json ? print_json(t, path) : print(t, path);
}

samba_status samba_cli_tune(samba_context *context, const samba_cli_arguments *arguments)
{
    tuner t = {.context = context, .arguments = arguments, .phase = SAMBA_TUNE_PHASES};
    samba_text path;
    samba_arena_init(&t.arena, context);
    samba_plan_init(&t.plan, context);
    samba_status status = samba_text_begin(&path, context, "%s%s", arguments->page ? arguments->page : arguments->pef,
                                           arguments->page ? "" : SAMBA_TUNE_ENDING);
    if (status == SAMBA_OK)
        status = work(&t, path.data);
    samba_session_free(t.session);
    for (int32_t i = 0; t.ios && i < t.plan.graph_count; i++)
        samba_io_free(&t.ios[i]);
    samba_text_clear(&path);
    samba_plan_free(&t.plan);
    samba_arena_free(&t.arena);
    return status;
}
