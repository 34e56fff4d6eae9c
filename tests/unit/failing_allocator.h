/* SPDX-License-Identifier: Apache-2.0
 *
 * An allocator that refuses one allocation (or all from one on) and knows what is alive. A scenario is a function that does
 * some work under a context, frees all it made and returns the first status that was not SAMBA_OK. fail_each_allocation runs
 * it with allocation 0, 1, 2 ... refused until it gets through: each time the status is SAMBA_ERROR_MEMORY with a message, no
 * byte is left alive, and every block was given back with its size. One thread at a time. */
#ifndef SAMBA_TEST_FAILING_ALLOCATOR_H
#define SAMBA_TEST_FAILING_ALLOCATOR_H

#include "harness.h"

typedef struct failing_allocator {
    int64_t calls;      /* allocations and resizes asked for so far */
    int64_t fail_from;  /* the first of them that is refused; -1: none */
    int64_t fail_count; /* how many are refused */
    int64_t refused;    /* how many were */
    int64_t live_blocks, live_bytes, peak_bytes;
    int64_t wrong_sizes; /* blocks resized or freed with a size they do not have */
} failing_allocator;

/* Each block is preceded by 64 bytes that hold its size. */
static inline void *failing_allocate(void *user, void *block, size_t old_size, size_t new_size)
{
    failing_allocator *state = user;
    char *base = block ? (char *)block - 64 : NULL;
    size_t known = 0;
    if (base) {
        memcpy(&known, base, sizeof known);
        state->wrong_sizes += known != old_size;
    }
    char *fresh = NULL;
    if (new_size > 0) {
        int64_t number = state->calls++;
        if (state->fail_from >= 0 && number >= state->fail_from && number - state->fail_from < state->fail_count) {
            state->refused++;
            return NULL;
        }
        if (new_size > (size_t)1 << 40 || !(fresh = aligned_alloc(64, (new_size + 127) / 64 * 64)))
            return NULL;
        memset(fresh + 64, 0xA5, new_size); /* what is not initialised should look wrong */
        memcpy(fresh, &new_size, sizeof new_size);
        if (base)
            memcpy(fresh + 64, block, known < new_size ? known : new_size);
        state->live_blocks++;
        state->live_bytes += (int64_t)new_size;
        if (state->live_bytes > state->peak_bytes)
            state->peak_bytes = state->live_bytes;
    }
    if (base) {
        state->live_blocks--;
        state->live_bytes -= (int64_t)known;
        free(base);
    }
    return fresh ? fresh + 64 : NULL;
}

static inline samba_allocator failing_allocator_init(failing_allocator *state)
{
    memset(state, 0, sizeof *state);
    state->fail_from = -1;
    return (samba_allocator){failing_allocate, state};
}

/* A context whose memory is counted and not refused until fail_from and fail_count are set. */
static inline samba_context *counting_context_new(failing_allocator *state)
{
    samba_allocator allocator = failing_allocator_init(state);
    samba_context *owner = NULL;
    assert_int_equal(samba_context_new(&allocator, &owner), SAMBA_OK);
    return owner;
}

/* Frees the context and asserts that nothing made under it is alive. */
static inline void counting_context_free(samba_context *owner, const failing_allocator *state)
{
    samba_context_free(owner);
    assert_int_equal(state->live_blocks, 0);
    assert_int_equal(state->live_bytes, 0);
    assert_int_equal(state->wrong_sizes, 0);
}

typedef samba_status failing_scenario(samba_context *owner, void *user);

/* Every so manyth allocation from this one on, until the work gets through. */
static inline void fail_some_allocations(failing_scenario *scenario, void *user, int64_t from, int64_t every, int64_t fail_count)
{
    bool through = false;
    for (int64_t number = from; !through; number += every) {
        failing_allocator state;
        samba_context *owner = counting_context_new(&state);
        state.fail_from = state.calls + number;
        state.fail_count = fail_count;
        samba_status status = scenario(owner, user);
        through = state.refused == 0;
        if (status != (through ? SAMBA_OK : SAMBA_ERROR_MEMORY))
            fail_msg("allocation %lld refused: status %s, message \"%s\"", (long long)number, samba_status_name(status),
                     samba_error_message(owner));
        if (!through)
            assert_true(samba_error_message(owner)[0] != '\0');
        if (state.live_blocks != 1)
            fail_msg("allocation %lld refused: %lld blocks leaked", (long long)number, (long long)state.live_blocks - 1);
        counting_context_free(owner, &state);
    }
}

static inline void fail_each_allocation(failing_scenario *scenario, void *user)
{
    fail_some_allocations(scenario, user, 0, 1, 1);         /* only that one: does the work stop cleanly? */
    fail_some_allocations(scenario, user, 0, 1, INT64_MAX); /* that one and all after: does cleaning up need memory? */
}

/* The next step of a scenario, if all went well so far. */
#define THEN(status, call) ((status) = (status) == SAMBA_OK ? (call) : (status))

#ifdef SAMBA_TEST_HARNESS_H
/* For TEST_MAIN_WITH: each test has a context of its own, in which it must leave nothing alive. */
static failing_allocator counted_memory __attribute__((unused));
static samba_context *context_of_all __attribute__((unused));

static inline int counting_begin(void **state)
{
    context_of_all = context;
    context = counting_context_new(&counted_memory);
    return 0;
}

static inline int counting_end(void **state)
{
    samba_context *its = context;
    context = context_of_all;
    counting_context_free(its, &counted_memory);
    return 0;
}
#endif

#endif
