/* SPDX-License-Identifier: Apache-2.0
 *
 * Data parallel training as far as one process sees it: what is compiled, what is refused, and that a single replica trains as a
 * session without replicas does. tests/parallel has several. */
#include "classifier.h"

#include <sambaflow/parallel.h>

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- launchers ---- */
static samba_session *open_parallel(const batch *b, bool parallel, int accumulation);

static const struct launch {
    const char *variables; /* NAME=value, with spaces between */
    samba_replicas self;
    const char *refusal; /* of what needs the others; "": none */
    const char *warning; /* of a training without them */
} launches[] = {
    {"", {.size = 1, .local_size = 1}, "", ""},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500",
     {0, 2, 0, 2, ""},
     "torchrun has started this process as one of 2, and replicas reach each other by MPI alone: start the same program by "
     "mpirun "
     "-n 2, or set SAMBAFLOW_MPI=off",
     "torchrun has started this process as one of 2, and each trains a model of its own: compile and run with data_parallel"},
    {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4",
     {5, 8, 1, 4, ""},
     "torchrun has started this process as one of 8",
     ""},
    {"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", {.size = 1, .local_size = 1}, "", ""},
    {"WORLD_SIZE=4", {.size = 1, .local_size = 1}, "", ""},
    {"RANK=2 WORLD_SIZE=2", {.size = -1}, "RANK is \"2\" and WORLD_SIZE is 2: expected a rank from 0 to 1", ""},
    {"RANK=one WORLD_SIZE=2", {.size = -1}, "RANK is \"one\" and WORLD_SIZE is 2: expected a rank from 0 to 1", ""},
    {"SAMBAFLOW_MPI=off RANK=1 WORLD_SIZE=2", {.size = 1, .local_size = 1}, "", ""},
    /* srun without MPI */
    {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 SLURM_LOCALID=1",
     {3, 4, 1, 2, ""},
     "Slurm has started this process as one of 4, and replicas reach each other by MPI alone: start the same program by srun "
     "--mpi=pmix (pmi2 for MPICH) -n 4, or set SAMBAFLOW_MPI=off",
     ""},
    {"SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_LOCALID=1", {1, 2, 1, 2, ""}, "Slurm has started this process as one of 2", ""},
    {"SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_LOCALID=0",
     {0, 2, 0, 1, ""},
     "Slurm has started this process as one of 2",
     "Slurm has started this process as one of 2, and each trains"},
    /* a batch script, and a shell of salloc: one process */
    {"SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_LOCALID=0",
     {.size = 1, .local_size = 1},
     "Slurm has started a job of 8, and replicas",
     ""},
    {"SLURM_NTASKS=8", {.size = 1, .local_size = 1}, "Slurm has started a job of 8, and replicas", ""},
    {"SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", {.size = 1, .local_size = 1}, "", ""},
};

static int complain(const char *what, const char *is)
{
    print_error("%s: %s\n", what, is);
    return 1;
}

/* In a process of its own: what a process finds stays. */
static int look(const struct launch *l, const batch *b)
{
    char words[512], *rest = words;
    samba_replicas told, self = {.size = -1};
    snprintf(words, sizeof words, "%s", l->variables);
    for (char *word; (word = strsep(&rest, " "));)
        if (word[0])
            putenv(word);
    samba_session *session = open_parallel(b, false, 1);
    samba_run_options r = giving(2, b->inputs);
    if (samba_run(session, &r) != SAMBA_OK)
        return complain("training alone", samba_error_message(context));
    const char *warning = samba_session_warning(session);
    if (strncmp(warning, l->warning, strlen(l->warning)) != 0 || (warning[0] && !l->warning[0]))
        return complain("the warning", warning);
    if (samba_replicas_told(context, &told) == SAMBA_OK && l->self.size > 0 && memcmp(&told, &l->self, sizeof told) != 0)
        return complain("who it is", "told otherwise");
    if (samba_replicas_find(context, &self) == SAMBA_OK && memcmp(&self, &l->self, sizeof self) != 0)
        return complain("who it is", "found otherwise");
    r.data_parallel = true;
    const samba_status statuses[] = {samba_replicas_wait(context), samba_run(open_parallel(b, true, 1), &r)};
    for (int i = 0; i < 2; i++)
        if ((statuses[i] == SAMBA_OK) != !l->refusal[0])
            return complain("what needs the others", samba_status_name(statuses[i]));
    if (l->refusal[0] && strncmp(samba_error_message(context), l->refusal, strlen(l->refusal)) != 0)
        return complain("the refusal", samba_error_message(context));
    return 0;
}

/* Runs before any other test finds that there is no network. */
TEST(test_launchers)
{
    batch b = batch_new(SAMPLES);
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0)
            _exit(look(&launches[i], &b));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            print_error("with \"%s\"\n", launches[i].variables);
        assert_int_equal(status, 0);
    }
}

/* ---- the network ---- */
/* Runs before any other test finds that there is no network. */
TEST(test_networks)
{
    samba_replicas self = {.rank = 7};
    setenv("SAMBAFLOW_MPI", "lam", 1);
    refuse(samba_replicas_find(context, &self), SAMBA_ERROR_NAME,
           "SAMBAFLOW_MPI is \"lam\": expected \"openmpi\", \"mpich\" or \"off\"");
    setenv("SAMBAFLOW_PLUGINS", "/nowhere", 1);
    setenv("SAMBAFLOW_MPI", "openmpi", 1);
    refuse(samba_replicas_find(context, &self), SAMBA_ERROR_UNSUPPORTED,
           "Open MPI has started this process, and libsambaflow-mpi-openmpi.so cannot be loaded (/nowhere/libsambaflow-mpi");
    unsetenv("SAMBAFLOW_MPI");
    setenv("PMI_SIZE", "2", 1);
    refuse(samba_replicas_find(context, &self), SAMBA_ERROR_UNSUPPORTED, "MPICH has started this process");
    setenv("SAMBAFLOW_MPI", "off", 1);
    assert_int_equal(self.rank, 7);
    need(samba_replicas_find(context, &self));
    assert_true(self.rank == 0 && self.size == 1 && self.local_rank == 0 && self.local_size == 1 && self.network[0] == '\0');
    unsetenv("PMI_SIZE");
    need(samba_replicas_wait(context));
    int number = 3, all = 0;
    need(samba_replicas_gather(context, &number, sizeof number, &all));
    assert_int_equal(all, 3);
    need(samba_replicas_broadcast(context, &number, sizeof number, 0));
    refuse(samba_replicas_broadcast(context, &number, sizeof number, 1), SAMBA_ERROR_ARGUMENT,
           "there is no replica 1: replicas are 0 to 0");
    refuse(samba_replicas_broadcast(context, NULL, 4, 0), SAMBA_ERROR_ARGUMENT, "no data to send");
    refuse(samba_replicas_gather(context, &number, (size_t)2 << 30, &all), SAMBA_ERROR_ARGUMENT, "expected at most 1073741824");
}

/* ---- one replica ---- */
static samba_session *open_parallel(const batch *b, bool parallel, int accumulation)
{
    samba_compile_options options = classifier_options(&plain, b, adamw());
    options.grad_accumulation_steps = accumulation;
    options.data_parallel = parallel;
    return open_kept(&options, 1, 4);
}

TEST(test_alone)
{
    batch b = batch_new(SAMPLES);
    static const char *const modes[] = {NULL, "normal", "inorder", "optimal"};
    for (int accumulation = 1; accumulation < 3; accumulation++)
        for (int mode = 0; mode < 4; mode++) {
            samba_session *usual = open_parallel(&b, false, accumulation), *parallel = open_parallel(&b, true, accumulation);
            for (int i = 0; i < 4; i++) {
                samba_run_options r = giving(2, b.inputs);
                need(samba_run(usual, &r));
                r.data_parallel = true;
                r.data_parallel_mode = modes[mode];
                r.reduce_on_rdu = i % 2;
                need(samba_run(parallel, &r));
                assert_same_bits(usual, parallel, LEARNED);
            }
        }
}

/* Without data_parallel the sections of REDUCE do nothing, in whatever way they are run. */
TEST(test_not_asked)
{
    batch b = batch_new(SAMPLES);
    samba_session *usual = open_parallel(&b, false, 1), *parallel = open_parallel(&b, true, 1);
    static const char *const types[] = {"FWD", "BCKWD", "REDUCE", "GRADNORM", "OPT"};
    for (int i = 0; i < 3; i++) {
        samba_run_options r = giving(2, b.inputs);
        need(samba_run(usual, &r));
        r.section_type_count = i == 0 ? 0 : 5;
        r.section_types = types;
        need(samba_run(parallel, &r));
        assert_same_bits(usual, parallel, LEARNED);
    }
}

TEST(test_refused)
{
    batch b = batch_new(SAMPLES);
    samba_session *usual = open_parallel(&b, false, 1), *parallel = open_parallel(&b, true, 1);
    static const char *const no_reduce[] = {"FWD", "BCKWD", "OPT"}, *const late[] = {"FWD", "BCKWD", "GRADNORM", "REDUCE", "OPT"},
                             *const update[] = {"GRADNORM", "OPT"}, *const rest[] = {"REDUCE", "GRADNORM", "OPT"};
    samba_run_options r = giving(2, b.inputs);
    r.reduce_on_rdu = true;
    refuse(samba_run(parallel, &r), SAMBA_ERROR_ARGUMENT, "reduce_on_rdu says how data_parallel reduces gradients");
    r.reduce_on_rdu = false;
    r.data_parallel_mode = "inorder";
    refuse(samba_run(parallel, &r), SAMBA_ERROR_ARGUMENT, "data_parallel_mode says how");
    r.data_parallel = true;
    r.data_parallel_mode = "Normal";
    refuse(samba_run(parallel, &r), SAMBA_ERROR_NAME, "data_parallel_mode is \"Normal\": expected normal, inorder or optimal");
    r.data_parallel_mode = NULL;
    refuse(samba_run(usual, &r), SAMBA_ERROR_ARGUMENT, "\"classifier\" has no section of type REDUCE");
    r.section_types = no_reduce, r.section_type_count = 3;
    refuse(samba_run(parallel, &r), SAMBA_ERROR_STATE, "(OPT) reads gradients, and REDUCE has not averaged");
    r.section_types = late, r.section_type_count = 5; /* the other way round */
    need(samba_run(parallel, &r));
    r.section_types = no_reduce, r.section_type_count = 2;
    need(samba_run(parallel, &r));
    r.section_types = update;
    refuse(samba_run(parallel, &r), SAMBA_ERROR_STATE, "(GRADNORM) reads gradients");
    r.section_types = rest, r.section_type_count = 3;
    r.data_parallel = false; /* averaged by nobody */
    need(samba_run(parallel, &r));
    r.section_types = no_reduce, r.section_type_count = 2;
    need(samba_run(parallel, &r));
    r.data_parallel = true;
    r.section_types = rest, r.section_type_count = 3;
    need(samba_run(parallel, &r));
    refuse(samba_run(parallel, &r), SAMBA_ERROR_STATE, "averages gradients over the replicas for a second time");
}

/* ---- compiling ---- */
TEST(test_compiling)
{
    batch b = batch_new(SAMPLES);
    samba_compile_options options = classifier_options(&plain, &b, adamw());
    options.data_parallel = options.inference = true;
    options.optimizer_count = 0;
    refuse(samba_compile(context, &options, NULL, 0), SAMBA_ERROR_ARGUMENT, "compile: inference has no gradients for replicas");
    samba_session *parallel = open_parallel(&b, true, 1);
    int reduces = 0, before = -1;
    for (int i = 0; i < samba_session_section_count(parallel); i++) {
        samba_section_info info;
        need(samba_session_section_info(parallel, i, &info));
        reduces += strcmp(info.type, "REDUCE") == 0;
        before = strcmp(info.type, "BCKWD") == 0 ? 0 : strcmp(info.type, "REDUCE") == 0 && before == 0 ? 1 : before;
        if (strcmp(info.type, "GRADNORM") == 0)
            assert_int_equal(before, 1);
    }
    assert_int_equal(reduces, 1);
}

TEST_MAIN_WITH(NULL, drop_kept, test_launchers, test_networks, test_alone, test_not_asked, test_refused, test_compiling)
