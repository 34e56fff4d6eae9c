/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session says to misuse, word for word: messages/messages.txt. After each sentence the device's weights are what they
 * were. tests/python/messages/session.txt is the same for Python, tests/operators/messages for operators. */
#include "messages.h"
#include "training.h"

#include <sys/stat.h>

enum { ROWS = 4, IN = 6, CLASSES = 4 };

/* ---- what there is: a model with dropout, a session of it, and one of two graphs ---- */
MODEL(model)
{
    samba_value logits = samba_dropout(samba_linear(samba_input(g, "x"), "lin", CLASSES), "drop", 0.1);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "target")));
}

MODEL(answering) { samba_output(g, "answer", samba_linear(samba_input(g, "question"), "lin", CLASSES)); }
MODEL(wide) { samba_output(g, "answer", samba_linear(samba_input(g, "question"), "lin", CLASSES + 1)); }
MODEL(silent) { samba_input(g, "question"); }
MODEL(open)
{
    samba_scope_push(g, "net");
    samba_scope_push(g, "block");
    samba_output(g, "answer", samba_linear(samba_input(g, "question"), "lin", CLASSES));
    samba_scope_pop(g);
}

static samba_session *session, *several;
static samba_tensor *x, *target, *question, *weights;
static char pef[512], both[512], short_pef[512], foreign[512];

static samba_compile_options options(void)
{
    static samba_optimizer sgd;
    static samba_tensor *inputs[2];
    sgd = samba_sgd(0.1), inputs[0] = x, inputs[1] = target;
    return training_of("graph", model, NULL, 2, inputs, &sgd);
}

static samba_compile_options inference(const char *name, samba_model its) { return inference_of(name, its, NULL, 1, &question); }

static void write_file(char *path, const char *name, const char *data)
{
    snprintf(path, sizeof pef, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(data, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **unused)
{
    if (harness_begin(unused) != 0)
        return -1;
    x = normal("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN), 7), target = tensor("target", SAMBA_INT64, 1, SHAPE(ROWS));
    question = tensor("question", SAMBA_FLOAT32, 2, SHAPE(2, IN));
    samba_compile_options o = options(), answer = inference("answer", answering);
    need(samba_compile(context, &o, pef, sizeof pef));
    session = open_session(pef, 1, 1);
    samba_multigraph *m;
    need(samba_multigraph_new(context, &m));
    o.name = "train";
    need(samba_multigraph_add(m, &o, false));
    need(samba_multigraph_add(m, &answer, false));
    need(samba_multigraph_compile(m, "several", folder, both, sizeof both));
    samba_multigraph_free(m);
    several = open_session(both, 1, 1);
    weights = get(session, "lin.weight");
    write_file(short_pef, "short.pef", "SAMBAPEF");
    write_file(
        foreign, "foreign.pef",
        "a text that is no PEF and long enough to have the size of its header, which has 128 bytes: it says so, and what to "
        "give instead of it.");
    return 0;
}

static int teardown(void **unused)
{
    free_tensors(x, target, question, weights);
    samba_session_free(session);
    samba_session_free(several);
    return harness_end(unused);
}

static int weights_stay(void **unused)
{
    OWN_TENSOR *now = get(session, "lin.weight");
    return memcmp(samba_tensor_data(now), samba_tensor_data(weights), ROWS * IN * sizeof(float)) == 0 ? 0 : -1;
}

/* ---- runs ---- */

/* "x", "target", "question", or one that is made for the run: "name:dtype:2,3", "name:dtype" of rank 0. */
static samba_tensor *tensor_of(const char *text, samba_tensor **made)
{
    samba_tensor *const known[] = {x, target, question};
    char name[64], dtype_name[16], *sizes = strrchr(text, ':');
    for (int i = 0; i < LENGTH(known); i++)
        if (strcmp(text, samba_tensor_name(known[i])) == 0)
            return known[i];
    if (sscanf(text, "%63[^:]:%15[^:]", name, dtype_name) < 2)
        return NULL;
    samba_dtype dtype;
    int64_t shape[SAMBA_MAX_RANK];
    int rank = 0;
    need(samba_dtype_from_name(context, dtype_name, &dtype));
    if (sizes != strchr(text, ':'))
        for (char *at = sizes; *at; rank++)
            shape[rank] = strtoll(at + 1, &at, 10);
    return *made = tensor(strcmp(name, "''") == 0 ? "" : name, dtype, rank, shape);
}

/* What stands behind `option` in a word, or NULL. */
static char *after(char *word, const char *option)
{
    return strncmp(word, option, strlen(option)) == 0 ? word + strlen(option) : NULL;
}

/* A run in words: "several" for the PEF of two graphs, "zeros" to set all inputs, else options with their values. */
static samba_status run(const char *text)
{
    samba_run_options r = samba_run_defaults();
    samba_session *its = session;
    samba_tensor *lists[3][2];
    OWN_TENSOR *made = NULL;
    const char *types[2];
    int ids[2];
    samba_hyperparameter set;
    char copy[256], *value;
    r.inputs = lists[0], r.outputs = lists[1], r.output_gradients = lists[2];
    r.section_types = types, r.section_ids = ids, r.hyperparameters = &set;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest, *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (strcmp(word, "several") == 0)
            its = several;
        else if (strcmp(word, "zeros") == 0)
            return give_zeros(context, its);
        else if ((value = after(word, "input=")))
            lists[0][r.input_count++] = tensor_of(value, &made);
        else if ((value = after(word, "output=")))
            lists[1][r.output_count++] = tensor_of(value, &made);
        else if ((value = after(word, "gradient=")))
            lists[2][r.output_gradient_count++] = tensor_of(value, &made);
        else if ((value = after(word, "graph=")))
            r.graph_name = value;
        else if ((value = after(word, "type=")))
            types[r.section_type_count++] = strcmp(value, "NULL") == 0 ? NULL : value;
        else if ((value = after(word, "id=")))
            ids[r.section_id_count++] = atoi(value);
        else if ((value = after(word, "from=")))
            r.run_from_call_id = atoi(value);
        else if ((value = after(word, "until=")))
            r.run_until_call_id = atoi(value);
        else if ((value = strchr(word, '='))) /* a hyperparameter's */
            *value = 0, set = (samba_hyperparameter){word, strtod(value + 1, NULL)}, r.hyperparameter_count = 1;
        else
            assert_string_equal(word, "run");
    samba_status status = samba_run(its, &r);
    assert_int_equal(weights_stay(NULL), 0);
    return status;
}

TEST(runs) /* of order first: before any run */
{
    static const char *const parts[] = {"order", "inputs", "outputs", "sections", "gradients", "hyperparameters"};
    for (int i = 0; i < LENGTH(parts); i++)
        replay(parts[i], run);
}

TEST(lists)
{
    OWN_TENSOR *empty;
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN), &empty));
    samba_run_options r = samba_run_defaults();
    r.inputs = (samba_tensor *[]){empty, target}, r.input_count = 2;
    says(samba_run(session, &r));
    ((int64_t *)samba_tensor_data(target))[2] = 9;
    says(run("input=x input=target"));
    ((int64_t *)samba_tensor_data(target))[2] = 0;
    r.inputs = NULL;
    says(samba_run(session, &r));
    r = samba_run_defaults(), r.section_type_count = -1, r.section_ids = (const int[]){0}, r.section_id_count = 1;
    says(samba_run(session, &r));
    r.struct_size = 0;
    says(samba_run(session, &r));
    r = samba_run_defaults();
    r.hyperparameters = &(samba_hyperparameter){NULL, 1}, r.hyperparameter_count = 1;
    says(samba_run(session, &r));
    says(samba_session_set_hyperparameters(session, 1, NULL));
}

TEST(graphs)
{
    samba_multigraph *m;
    samba_compile_options answer = inference("answer", answering), other = inference("other", wide);
    need(samba_multigraph_new(context, &m));
    says(samba_multigraph_compile(m, "none", folder, NULL, 0));
    need(samba_multigraph_add(m, &answer, false));
    says(samba_multigraph_add(m, &answer, false));
    need(samba_multigraph_add(m, &answer, true));
    need(samba_multigraph_add(m, &other, false));
    says(samba_multigraph_compile(m, "both", folder, NULL, 0));
    samba_multigraph_free(m);
    replay("runs of several graphs", run);
}

/* ---- tensors by name, and what is asked by number ---- */
TEST(tensors)
{
    samba_tensor *found;
    OWN_TENSOR *wait = tensor("lin.wait", SAMBA_FLOAT32, 1, SHAPE(2));
    OWN_TENSOR *small = tensor("lin.weight", SAMBA_FLOAT32, 2, SHAPE(2, 2));
    says(samba_session_set(session, wait));
    says(samba_session_get(session, small));
    says(samba_session_set(session, NULL));
    says(samba_session_get_by_name(session, "lin.wait", &found));
    says(samba_session_get_by_name(session, NULL, &found));
    says(samba_session_input(session, "lin.weight", &found));
    samba_tensor_info info;
    samba_section_info section;
    samba_hyperparameter value;
    samba_graph_info graph;
    samba_time time;
    says(samba_session_tensor_info(session, 99, &info));
    says(samba_session_section_info(session, 3, &section));
    says(samba_session_hyperparameter(session, -1, &value));
    says(samba_session_graph_info(session, 1, &graph));
    says(samba_session_section_time(session, 3, &time));
    says(samba_session_profile(session, (samba_profile)3, 0));
}

TEST(sessions)
{
    samba_session *none;
    says(samba_session_new(context, NULL, NULL, &none));
    says(samba_session_new(context, pef, NULL, NULL));
    says(samba_session_new(context, "/nowhere/a.pef", NULL, &none));
    says(samba_session_new(context, folder, NULL, &none));
    says(samba_session_new(context, short_pef, NULL, &none));
    says(samba_session_new(context, foreign, NULL, &none));
    says(samba_session_new(context, pef, SESSION(.threads = -1), &none));
    says(samba_session_new(context, pef, SESSION(.device = "rdu"), &none));
    says(samba_session_new(context, pef, SESSION(.isa = "avx1024"), &none));
    says(samba_session_new(context, pef, &(samba_session_options){.struct_size = 1000}, &none));
    assert_null(none);
}

/* ---- weights as files ---- */
TEST(files)
{
    samba_checkpoint *checkpoint;
    samba_checkpoint_options o = samba_checkpoint_defaults();
    says(samba_session_load(session, "/nowhere/a.safetensors"));
    says(samba_session_load(session, short_pef));
    says(samba_session_load(session, NULL));
    says(samba_session_save(session, "/nowhere/a.safetensors", true));
    says(samba_session_save(session, NULL, true));
    says(samba_checkpoint_save(session, &o));
    says(samba_checkpoint_load(session, NULL));
    says(samba_checkpoint_open(context, pef, &checkpoint));
    char checkpoints[256], emptied[512];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    snprintf(emptied, sizeof emptied, "%s/checkpoint-7", checkpoints);
    assert_int_equal(mkdir(checkpoints, 0777), 0);
    assert_int_equal(mkdir(emptied, 0777), 0);
    says(samba_checkpoint_open(context, checkpoints, &checkpoint));
    says(samba_checkpoint_open(context, emptied, &checkpoint));
    says(samba_checkpoint_open(context, folder, &checkpoint));
}

/* ---- NULL where something is needed ---- */
TEST(nothing)
{
    samba_tensor_list list;
    samba_dtype dtype;
    says(samba_session_tensor_info(session, 0, NULL));
    says(samba_session_section_info(session, 0, NULL));
    says(samba_session_graph_info(session, 0, NULL));
    says(samba_session_stage_info(session, 0, NULL));
    says(samba_session_section_time(session, 0, NULL));
    says(samba_session_stage_time(session, 0, NULL));
    says(samba_safetensors_write(context, NULL, 1, &x, NULL));
    says(samba_safetensors_write(context, "a.safetensors", -1, &x, NULL));
    says(samba_safetensors_write(context, "a.safetensors", 1, NULL, NULL));
    says(samba_safetensors_write(context, "a.safetensors", 2, (samba_tensor *[]){x, NULL}, NULL));
    says(samba_tensors_read(context, NULL, "x", &list));
    says(samba_tensors_read(context, "a.npy", "x", NULL));
    says(samba_dtype_from_name(context, NULL, &dtype));
    says(samba_dtype_from_name(context, "int8", NULL));
    assert_int_equal(samba_tensor_set_memory(NULL, &list), SAMBA_ERROR_ARGUMENT); /* no context, no message */
    assert_int_equal(samba_context_new(NULL, NULL), SAMBA_ERROR_ARGUMENT);
}

/* ---- compiling: optimizers, losses, sizes, names; what does not fit is said with sizes ---- */
/* Fields that words set, name=value: those of an optimizer, and the compiler's own. */
static const struct {
    const char *word;
    bool of_optimizer;
    enum { DOUBLE, INT, INT64, BOOL, TEXT } type;
    size_t at;
} fields[] = {{"lr=", true, DOUBLE, offsetof(samba_optimizer, lr)},
              {"momentum=", true, DOUBLE, offsetof(samba_optimizer, momentum)},
              {"dampening=", true, DOUBLE, offsetof(samba_optimizer, dampening)},
              {"weight_decay=", true, DOUBLE, offsetof(samba_optimizer, weight_decay)},
              {"beta1=", true, DOUBLE, offsetof(samba_optimizer, beta1)},
              {"beta2=", true, DOUBLE, offsetof(samba_optimizer, beta2)},
              {"eps=", true, DOUBLE, offsetof(samba_optimizer, eps)},
              {"max_grad_norm=", true, DOUBLE, offsetof(samba_optimizer, max_grad_norm)},
              {"name=", true, TEXT, offsetof(samba_optimizer, name)},
              {"kind=", true, INT, offsetof(samba_optimizer, kind)},
              {"parameter_count=", true, INT, offsetof(samba_optimizer, parameter_count)},
              {"struct_size=", true, INT64, offsetof(samba_optimizer, struct_size)},
              {"nesterov=", true, BOOL, offsetof(samba_optimizer, nesterov)},
              {"input_count=", false, INT, offsetof(samba_compile_options, input_count)},
              {"gradient_count=", false, INT, offsetof(samba_compile_options, gradient_count)},
              {"optimizer_count=", false, INT, offsetof(samba_compile_options, optimizer_count)},
              {"grad_accumulation_steps=", false, INT, offsetof(samba_compile_options, grad_accumulation_steps)},
              {"memory_budget=", false, INT64, offsetof(samba_compile_options, memory_budget)},
              {"precision=", false, INT, offsetof(samba_compile_options, precision)},
              {"fast_memory=", false, INT64, offsetof(samba_compile_options, fast_memory)},
              {"mapping=", false, INT, offsetof(samba_compile_options, mapping)},
              {"inference=", false, BOOL, offsetof(samba_compile_options, inference)},
              {"pef_name=", false, TEXT, offsetof(samba_compile_options, pef_name)},
              {"output_folder=", false, TEXT, offsetof(samba_compile_options, output_folder)}};

/* Whether the word sets a field. */
static bool set_field(char *word, samba_optimizer *optimizer, samba_compile_options *o)
{
    for (int i = 0; i < LENGTH(fields); i++) {
        char *value = after(word, fields[i].word), *at = (fields[i].of_optimizer ? (char *)optimizer : (char *)o) + fields[i].at;
        if (!value)
            continue;
        switch (fields[i].type) {
        case DOUBLE: *(double *)at = strtod(value, NULL); break;
        case INT: *(int *)at = atoi(value); break;
        case INT64: *(int64_t *)at = atoi(value); break;
        case BOOL: *(bool *)at = atoi(value); break;
        case TEXT: *(const char **)at = value;
        }
        return true;
    }
    return false;
}

/* Options in words; those of an optimizer are of the first, behind "also" of a second one. */
static samba_status compile_words(const char *text)
{
    samba_compile_options o = strcmp(text, "silent") == 0 ? inference("graph", silent)
                              : strcmp(text, "open") == 0 ? inference("graph", open)
                                                          : options();
    samba_optimizer optimizers[2] = {samba_sgd(0.1), samba_sgd(0.1)}, *at = optimizers;
    const char *parameters[2][4], *gradients[4];
    char copy[128], *value;
    if (o.optimizer_count == 1)
        o.optimizers = optimizers;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest, *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (set_field(word, at, &o))
            continue;
        else if ((value = after(word, "parameter="))) {
            at->parameters = parameters[at - optimizers];
            parameters[at - optimizers][at->parameter_count++] = strcmp(value, "NULL") == 0 ? NULL : value;
        } else if ((value = after(word, "gradient="))) {
            o.gradients = gradients;
            gradients[o.gradient_count++] = strcmp(value, "NULL") == 0 ? NULL : value;
        } else if (strcmp(word, "adamw") == 0)
            *at = samba_adamw(0.1);
        else if (strcmp(word, "also") == 0)
            at = &optimizers[1], o.optimizer_count = 2;
        else if (strcmp(word, "NULL") == 0)
            o.optimizers = NULL;
        else if (strcmp(word, "open") != 0)
            assert_string_equal(word, "silent");
    return samba_compile(context, &o, NULL, 0);
}

static samba_status compile_text(const char *text)
{
    OWN_GRAPH *parsed;
    samba_compile_options o = samba_compile_defaults();
    need(samba_graph_parse(context, text, &parsed));
    o.graph = parsed;
    return samba_compile(context, &o, NULL, 0);
}

TEST(compiling)
{
    replay("compiling", compile_words);
    replay("optimizers", compile_words);
    replay("graphs that are not of FWD alone", compile_text);
}

TEST_MAIN_AROUND(setup, teardown, NULL, weights_stay, runs, lists, graphs, tensors, sessions, files, nothing, compiling,
                 every_message_said)
