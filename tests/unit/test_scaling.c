/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of many replicas: what an exchange costs follows the formulas of docs/scaling.md, written out here again; a step is
 * what two lines of time give that were drawn by hand; random steps keep to what holds of any. What a plan gives is that of the
 * classifier. */
#include "classifier.h"
#include "parallel/cost.h"
#include "report/scaling.h"

enum { MB = 1 << 20, RANDOM_STEPS = 400, MOST = 24 };

#define assert_near(a, b, distance) assert_true(fabs((a) - (b)) <= (distance))

/* ---- exchanges ---- */
/* Two replicas: half of the bytes out and half in, twice. */
TEST(test_two)
{
    const samba_network_cost network = {.bandwidth = 1e8, .latency = 1e-4, .overhead = 1e-6, .sum_rate = 1e9, .beside = 1};
    const samba_exchange_how how = {.replicas = 2, .scatter = true, .gather = true};
    const samba_exchange_seconds one = samba_exchange_cost(&network, &how, MB),
                                 four = samba_exchange_cost(&network, &how, 4 * MB);
    const double link = MB / 1e8, driver = 4e-6 + MB / 1e9;
    assert_near(one.occupies, link, 1e-12);
    assert_near(one.behind, 2e-4 + driver, 1e-12);
    assert_near(four.occupies, 4 * link, 1e-12);
    assert_near(four.behind, one.behind, 1e-12);
    assert_near(samba_exchange_bound(&network, 2, MB), link, 1e-12);
}

/* Half an exchange has one swap; a thread sleeps before it looks. */
TEST(test_halves)
{
    const samba_network_cost network = {.bandwidth = 1e8, .latency = 1e-4, .overhead = 0, .sum_rate = 1e9, .beside = 1};
    samba_exchange_how how = {.replicas = 2, .gather = true, .thread = true};
    samba_exchange_seconds time = samba_exchange_cost(&network, &how, MB);
    assert_near(time.occupies, MB / 2e8, 1e-12);
    assert_near(time.behind, 1e-4 + SAMBA_EXCHANGE_NAP, 1e-12);
    how.scatter = true, how.gather = false;
    time = samba_exchange_cost(&network, &how, MB);
    assert_near(time.occupies + time.behind, MB / 2e8 + 1e-4 + SAMBA_EXCHANGE_NAP + MB / 1e9, 1e-12);
}

/* A long way: a piece gives its slot free when it is there. Many replicas: messages are what takes long. */
TEST(test_latency)
{
    samba_network_cost network = {.bandwidth = 1e15, .latency = 1, .overhead = 0, .sum_rate = 1e15, .beside = 1};
    samba_exchange_how how = {.replicas = 2, .scatter = true, .gather = true};
    samba_exchange_seconds time = samba_exchange_cost(&network, &how, 8 * MB);
    assert_near(time.occupies, 8 * 2.0 / 4, 1e-6);
    assert_near(time.behind, 2 - 2.0 / 4, 1e-6);
    network.latency = 0, network.overhead = 1e-6, how.replicas = 1001;
    time = samba_exchange_cost(&network, &how, 1000);
    assert_near(time.occupies, 4 * 1000 * 1e-6, 1e-9);
    how.replicas = 1;
    time = samba_exchange_cost(&network, &how, 1000);
    assert_true(time.occupies == 0 && time.behind == 0);
}

/* ---- steps ---- */
/* FWD 1 s, BCKWD 1 s and 1 s, whose buckets need 2 s each of a network that sums at once; OPT 0.5 s each. */
static samba_scaling_section sections[] = {
    {.section = 0, .phase = SAMBA_PLAN_FWD, .seconds = 1, .completed_by = -1},
    {.section = 1, .phase = SAMBA_PLAN_BCKWD, .seconds = 1, .completed_by = -1},
    {.section = 2, .phase = SAMBA_PLAN_BCKWD, .seconds = 1, .completed_by = -1},
    {.section = 3, .phase = SAMBA_PLAN_REDUCE, .bytes = MB, .element = 4, .completed_by = 1},
    {.section = 4, .phase = SAMBA_PLAN_REDUCE, .bytes = MB, .element = 4, .completed_by = 2},
    {.section = 5, .phase = SAMBA_PLAN_OPT, .seconds = 0.5, .completed_by = -1},
    {.section = 6, .phase = SAMBA_PLAN_OPT, .seconds = 0.5, .completed_by = -1},
};
enum { COUNT = 7 };
static bool follows[COUNT * COUNT] = {[5 * COUNT + 4] = true, [6 * COUNT + 3] = true}; /* the last update has the first bucket */
static const samba_scaling drawn = {
    .count = COUNT, .sections = sections, .follows = follows, .runs = 1, .samples = 3, .memory = {.state = 60, .total = 100}};
static const samba_network_cost slow = {.bandwidth = MB / 2.0, .latency = 0, .overhead = 0, .sum_rate = 1e15, .beside = 1};

static samba_scaling_result step_of(samba_scaling_how how)
{
    samba_scaling_result result;
    need(samba_scaling_step(context, &drawn, &slow, &how, &result));
    return result;
}

TEST(test_modes)
{
    samba_scaling_result r = step_of((samba_scaling_how){2, SAMBA_MODE_NORMAL, false, false});
    const double near = 1e-3; /* naps */
    assert_near(r.step, 3 + 2 + 2 + 1, near);
    assert_near(r.alone, 4, 1e-9);
    assert_near(r.exchange, 4, near);
    assert_near(r.bound, 4, 1e-9);
    assert_near(r.hidden, 0, near);
    assert_near(r.efficiency, 0.5, near);
    assert_near(r.samples_per_second, 6 / 8.0, near);
    r = step_of((samba_scaling_how){2, SAMBA_MODE_INORDER, false, false}); /* from 2 to 4, and to 6; then the updates */
    assert_near(r.step, 7, near);
    assert_near(r.hidden, 0.25, near);
    r = step_of((samba_scaling_how){2, SAMBA_MODE_OPTIMAL, false, false}); /* the last update at 4 */
    assert_near(r.step, 6.5, near);
    r = step_of((samba_scaling_how){2, SAMBA_MODE_INORDER, false, true}); /* half the bytes: from 2 to 3, from 3 to 4 */
    assert_near(r.step, 5, near);
    r = step_of((samba_scaling_how){1, SAMBA_MODE_OPTIMAL, false, false});
    assert_near(r.step, 4, 1e-9);
}

/* Halves of exchanges: 1 s each; an update takes a half, and its parameters go to all. */
TEST(test_shards)
{
    const double rooms = 0.5 * SAMBA_EXCHANGE_SLOTS * 2 * (double)samba_exchange_block(2);
    samba_scaling_result r = step_of((samba_scaling_how){2, SAMBA_MODE_NORMAL, true, false});
    assert_near(r.step, 3 + 2 + 0.25 + 1 + 0.25 + 1, 1e-3);
    assert_near(r.memory, 70 + rooms, 1e-9);
    assert_near(step_of((samba_scaling_how){2, SAMBA_MODE_NORMAL, false, false}).memory, 100 + rooms, 1e-9);
    r = step_of((samba_scaling_how){2, SAMBA_MODE_INORDER, true, false}); /* 2 to 3, 3 to 4; updates to 4.25, 4.5; to 6.25 */
    assert_near(r.step, 6.25, 1e-3);
    r = step_of(
        (samba_scaling_how){2, SAMBA_MODE_OPTIMAL, true, false}); /* the last update 3 to 3.25, its parameters 4 to 5, ... */
    assert_near(r.step, 6, 1e-3);
    samba_scaling clips = drawn; /* a norm reads all means: exchanges are whole, and parameters go to all as well */
    clips.norms = true;
    need(samba_scaling_step(context, &clips, &slow, &(samba_scaling_how){2, SAMBA_MODE_NORMAL, true, false}, &r));
    assert_near(r.step, 3 + 4 + 0.25 + 1 + 0.25 + 1, 1e-3);
}

/* An exchange that takes half of the processors makes what runs beside it twice as long. */
TEST(test_processors)
{
    samba_network_cost network = slow;
    samba_scaling_result r;
    const samba_scaling_how how = {2, SAMBA_MODE_INORDER, false, false};
    network.processor = 0.5;
    need(samba_scaling_step(context, &drawn, &network, &how, &r));
    assert_near(r.step, 2 + 2 + 2 + 1, 1e-3); /* BCKWD's second from 2 to 4, the second bucket to 6 */
    network.beside = 0.5; /* and the network as slow: BCKWD from 2 to 4, 1 s of the first bucket is left; OPT waits for 3 more */
    need(samba_scaling_step(context, &drawn, &network, &how, &r));
    assert_near(r.step, 4 + 3 + 1, 1e-3);
    assert_near(r.exchange, 5, 1e-3);
    samba_scaling_section own[COUNT];
    memcpy(own, sections, sizeof own);
    samba_scaling times = drawn;
    times.sections = own;
    double seconds[COUNT] = {1, 2, 3, 9, 9, 4, 5};
    times.runs = 3;
    samba_scaling_set_times(&times, seconds, 7);
    assert_near(times.before, 7 + 2 * 6, 1e-9);
    assert_true(own[3].seconds == 0 && own[6].seconds == 5);
    samba_scaling_fit(&times, 2 * (19 + 15));
    assert_near(times.before + own[0].seconds + own[6].seconds, 2 * (19 + 1 + 5), 1e-9);
}

/* ---- random steps ---- */
static double drawn_real(uint64_t *seed, double low, double high)
{
    return low * pow(high / low, (double)(next_seed(seed) >> 11) * 0x1p-53);
}

static void draw_step(uint64_t *seed, samba_scaling *scaling, samba_scaling_section *list, bool *order)
{
    const int backward = 1 + (int)(next_seed(seed) % 8), updates = 1 + (int)(next_seed(seed) % 6);
    *scaling = (samba_scaling){.sections = list, .follows = order, .runs = 1, .samples = 4, .memory.total = 1};
    for (int i = 0; i < 2 * backward + updates; i++) {
        samba_scaling_section *section = &list[scaling->count++];
        *section = (samba_scaling_section){.section = i, .completed_by = -1, .seconds = drawn_real(seed, 1e-5, 1)};
        section->phase = i < backward ? SAMBA_PLAN_BCKWD : i < 2 * backward ? SAMBA_PLAN_REDUCE : SAMBA_PLAN_OPT;
        if (section->phase != SAMBA_PLAN_REDUCE)
            continue;
        section->seconds = 0;
        section->bytes = 4 * (int64_t)drawn_real(seed, 1, 1e8);
        section->element = 4;
        section->completed_by = i - backward;
    }
    memset(order, 0, (size_t)(scaling->count * scaling->count));
    for (int a = 2 * backward; a < scaling->count; a++)
        for (int b = backward; b < a; b++)
            order[a * scaling->count + b] = next_seed(seed) % 3 == 0;
}

TEST(test_random_steps)
{
    const uint64_t begin = random_seed();
    uint64_t seed = begin;
    samba_scaling scaling;
    samba_scaling_section list[MOST];
    bool order[MOST * MOST];
    print_message("seed %llu\n", (unsigned long long)begin);
    for (int i = 0; i < RANDOM_STEPS; i++) {
        draw_step(&seed, &scaling, list, order);
        samba_network_cost network;
        network.bandwidth = drawn_real(&seed, 1e6, 1e11);
        network.latency = drawn_real(&seed, 1e-7, 1e-2);
        network.overhead = drawn_real(&seed, 1e-8, 1e-4);
        network.sum_rate = drawn_real(&seed, 1e8, 1e11);
        network.processor = 0;
        network.beside = drawn_real(&seed, 0.1, 1);
        samba_network_cost faster = network;
        faster.bandwidth *= 2;
        samba_scaling_how how = {1 + (int)drawn_real(&seed, 1, 20000), SAMBA_MODE_NORMAL, false, false};
        for (int mode = 0; mode < SAMBA_MODE_COUNT; mode++) {
            samba_scaling_result r, other;
            how.mode = (samba_replica_mode)mode;
            need(samba_scaling_step(context, &scaling, &network, &how, &r));
            assert_true(r.step >= r.alone * (1 - 1e-9) && r.step <= (r.alone + r.exchange) * (1 + 1e-9));
            assert_true(r.exchange >= r.bound * (1 - 1e-9) && r.hidden >= 0 && r.hidden <= 1 && r.efficiency <= 1 + 1e-9);
            need(samba_scaling_step(context, &scaling, &faster, &how, &other));
            assert_true(other.step <= r.step * (1 + 1e-9));
        }
        how.replicas = 1;
        samba_scaling_result one;
        need(samba_scaling_step(context, &scaling, &network, &how, &one));
        assert_near(one.step, one.alone, 1e-9 * one.alone);
    }
}

/* ---- of a plan ---- */
TEST(test_plan)
{
    batch b = batch_new(SAMPLES);
    samba_compile_options options = classifier_options(&plain, &b, adamw());
    samba_arena arena;
    samba_scaling scaling;
    samba_arena_init(&arena, context);
    options.data_parallel = true;
    options.grad_accumulation_steps = 2;
    samba_plan plan = compiled_plan(&options);
    need(samba_scaling_find(context, &plan, 0, &arena, &scaling));
    int64_t bytes = 0;
    int reduces = 0;
    for (int32_t i = 0; i < plan.tensor_count; i++)
        if (plan.tensors[i].kind == SAMBA_KIND_PARAMETER)
            bytes += plan.buffers[plan.tensors[i].buffer].bytes;
    assert_in_range(scaling.bytes, bytes, bytes + SAMBA_ALIGNMENT * plan.tensor_count);
    assert_int_equal(scaling.samples, 2 * SAMPLES);
    for (int32_t i = 0; i < scaling.count; i++) {
        const samba_scaling_section *section = &scaling.sections[i];
        assert_true((section->bytes > 0) == (section->phase == SAMBA_PLAN_REDUCE));
        reduces += section->bytes > 0;
        if (section->bytes > 0)
            assert_int_equal(scaling.sections[section->completed_by].phase, SAMBA_PLAN_BCKWD);
    }
    assert_true(reduces > 0);
    assert_near(samba_scaling_roof(&plan, 0, 1, 1e30), (double)plan.sections[0].flops, 1e-6);
    samba_plan_free(&plan);

    options.data_parallel = false;
    plan = compiled_plan(&options);
    refuse(samba_scaling_find(context, &plan, 0, &arena, &scaling), SAMBA_ERROR_ARGUMENT,
           "scale: graph \"classifier\" has no section of type REDUCE, which averages the gradients of replicas: compile it with "
           "data_parallel");
    samba_plan_free(&plan);
    options.grad_accumulation_steps = 1;
    options.inference = true;
    options.optimizer_count = 0;
    plan = compiled_plan(&options);
    refuse(samba_scaling_find(context, &plan, 0, &arena, &scaling), SAMBA_ERROR_ARGUMENT,
           "scale: graph \"classifier\" is for inference");
    samba_plan_free(&plan);
    samba_arena_free(&arena);
}

/* This process is the only replica. */
TEST(test_alone)
{
    const samba_world *world;
    samba_network_cost network;
    setenv("SAMBAFLOW_MPI", "off", 1);
    need(samba_world_find(context, &world));
    refuse(samba_network_measure(context, world, &network), SAMBA_ERROR_ARGUMENT,
           "measuring a network takes two replicas, and this process is the only one: start it by mpirun -n 2");
}

TEST_MAIN_WITH(NULL, drop_kept, test_two, test_halves, test_latency, test_modes, test_shards, test_processors, test_random_steps,
               test_plan, test_alone)
