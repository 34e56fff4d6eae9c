/* SPDX-License-Identifier: Apache-2.0
 *
 * One contender of `make bench`: steps of any PEF. It writes its initial weights and its inputs to safetensors files for the
 * other contenders, prints a JSON line when it is ready, then obeys lines on standard input, so that contenders can take turns
 * (protocol.py is the same in Python). Each is answered by one JSON line:
 *   losses N    runs N steps, gives the value of the output of each
 *   output FILE runs a step, writes the output to a .npy file
 *   time N      runs N steps, gives each one's ms, the mean time outside kernels, and memory
 * A step is samba_run with the inputs given and the output received. The inputs lie in the session's memory, as the other
 * contenders' lie where their runs read them; the output's transfer counts. `train` runs the schedule, `inference` FWD. */
#include <sambaflow/data.h>
#include <sambaflow/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_INPUTS = 16, MAX_STEPS = 1000000 };
static samba_context *context;

static void die(const char *message, const char *what)
{
    fprintf(stderr, "step: %s%s\n", message, what);
    exit(1);
}

static void need(samba_status status)
{
    if (status != SAMBA_OK)
        die(samba_error_message(context), "");
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The most memory this program had resident. Not getrusage: its figure begins with that of the process that started this one. */
static long long peak_bytes(void)
{
    char line[256];
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %lld", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib * 1024;
}

/* From now on the peak is that of steps: copies of the parameters that were written to a file are none of theirs. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file || fputs("5", file) < 0 || fclose(file) != 0)
        fprintf(stderr, "step: /proc/self/clear_refs cannot be written; the peak of memory includes a copy of the parameters\n");
}

/* "label=10" among the arguments: the input's values are 0 .. 9. */
static int64_t classes_of(const char *input, int count, char **arguments)
{
    size_t length = strlen(input);
    for (int i = 0; i < count; i++)
        if (strncmp(arguments[i], input, length) == 0 && arguments[i][length] == '=')
            return atoll(arguments[i] + length + 1);
    die("give the number of classes of an integer input as INPUT=CLASSES: ", input);
    return 0;
}

/* Inputs of random values, in the session's memory. Returns how many. */
static int make_inputs(samba_session *session, int class_count, char **classes, samba_tensor **inputs)
{
    int count = 0;
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_INPUT)
            continue;
        if (count == MAX_INPUTS)
            die("no room for input ", info.name);
        samba_tensor *t;
        uint64_t seed = 100 + (uint64_t)count;
        need(samba_session_input(session, info.name, &t));
        if (samba_dtype_is_floating_point(info.dtype))
            need(samba_fill_normal(t, seed, 0, 1));
        else
            need(samba_fill_integers(t, seed, 0, classes_of(info.name, class_count, classes)));
        inputs[count++] = t;
    }
    return count;
}

static samba_tensor *make_output(samba_session *session, const char *name)
{
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        samba_tensor *t;
        need(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_OUTPUT || strcmp(info.name, name) != 0)
            continue;
        need(samba_tensor_new(context, info.name, info.dtype, info.rank, info.shape, &t));
        return t;
    }
    die("the PEF has no output ", name);
    return NULL;
}

/* One step; its ms. */
static double step(samba_session *session, const samba_run_options *run)
{
    double start = now();
    need(samba_run(session, run));
    return now() - start;
}

static void print_list(const char *name, const double *values, int count)
{
    printf("{\"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.9g", i ? ", " : "", values[i]);
    printf("]");
}

static void time_steps(samba_session *session, const samba_run_options *run, double *ms, int count)
{
    samba_session_reset_stats(session);
    for (int i = 0; i < count; i++)
        ms[i] = step(session, run);
    samba_run_stats stats;
    samba_session_stats(session, &stats);
    print_list("ms", ms, count);
    printf(", \"outside_ms\": %.6g, \"peak_bytes\": %lld}\n", 1e3 * (stats.total_seconds - stats.kernel_seconds) / count,
           peak_bytes());
}

static void print_losses(samba_session *session, const samba_run_options *run, double *losses, int count)
{
    double first_ms = 0;
    for (int i = 0; i < count; i++) {
        double ms = step(session, run);
        first_ms = i == 0 ? ms : first_ms;
        need(samba_tensor_item(run->outputs[0], &losses[i]));
    }
    print_list("losses", losses, count);
    printf(", \"first_ms\": %.6g}\n", first_ms);
}

static void write_output(samba_session *session, const samba_run_options *run, const char *path)
{
    double first_ms = step(session, run);
    need(samba_npy_write(context, path, run->outputs[0]));
    printf("{\"first_ms\": %.6g}\n", first_ms);
}

int main(int argc, char **argv)
{
    if (argc < 6 || samba_context_new(NULL, &context) != SAMBA_OK) {
        fprintf(stderr,
                "usage: step PEF FOLDER THREADS train|inference OUTPUT [INPUT=CLASSES ...]\n"
                "writes FOLDER/parameters.safetensors and FOLDER/inputs.safetensors, then obeys lines on standard input\n");
        return 2;
    }
    long long base_bytes = peak_bytes();
    double start = now();
    samba_session_options options = samba_session_defaults();
    options.seed = 1;
    options.threads = atoi(argv[3]);
    samba_session *session;
    need(samba_session_new(context, argv[1], &options, &session));
    double load_ms = now() - start;

    samba_tensor *inputs[MAX_INPUTS], *output = make_output(session, argv[5]);
    const char *forward[] = {"FWD"};
    samba_run_options run = samba_run_defaults();
    run.input_count = make_inputs(session, argc - 6, argv + 6, inputs);
    run.inputs = inputs;
    run.output_count = 1;
    run.outputs = &output;
    if (strcmp(argv[4], "inference") == 0) {
        run.section_type_count = 1;
        run.section_types = forward;
        run.train = false;
    }
    char line[4096], what[16], path[4096];
    snprintf(path, sizeof path, "%s/parameters.safetensors", argv[2]);
    need(samba_session_save(session, path, false));
    snprintf(path, sizeof path, "%s/inputs.safetensors", argv[2]);
    need(samba_safetensors_write(context, path, run.input_count, inputs, NULL));
    forget_peak();
    samba_memory_info memory;
    need(samba_session_memory(session, &memory));
    printf("{\"load_ms\": %.6g, \"base_bytes\": %lld, \"plan_bytes\": %lld, \"threads\": %d, \"isa\": \"%s\"}\n", load_ms,
           base_bytes, (long long)memory.total, samba_session_threads(session), samba_session_isa(session));
    fflush(stdout);

    double *values = malloc(sizeof *values * MAX_STEPS);
    if (!values)
        die("no memory for times", "");
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%15s %4095s", what, path) == 2) {
        int count = atoi(path);
        if (strcmp(what, "output") == 0)
            write_output(session, &run, path);
        else if (count < 1 || count > MAX_STEPS)
            die("not a number of steps: ", path);
        else if (strcmp(what, "time") == 0)
            time_steps(session, &run, values, count);
        else if (strcmp(what, "losses") == 0)
            print_losses(session, &run, values, count);
        else
            die("not one of losses, output, time: ", what);
        fflush(stdout);
    }
    free(values);
    for (int i = 0; i < run.input_count; i++)
        samba_tensor_free(inputs[i]);
    samba_tensor_free(output);
    samba_session_free(session);
    samba_context_free(context);
    return 0;
}
