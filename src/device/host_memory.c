/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory that is host memory. The threads that will work on it touch it first, so that on machines with several memories
 * each page lies near a thread; large pages are asked for where the system gives them on request, since stages walk through all
 * of it. */
#include "base/team.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE_PAGE ((size_t)SAMBA_LARGE_PAGE)

/* Memory beyond what the machine has would be granted and then fail when it is used: refused here, where it can be said. */
static samba_status check_machine(samba_context *context, int64_t bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0 && bytes / page >= pages)
        return samba_fail(
            context, SAMBA_ERROR_MEMORY,
            "the PEF needs %lld MiB of device memory and this machine has %lld: compile with a smaller batch or model",
            (long long)(bytes >> 20), (long long)(pages >> 10) * (page >> 10));
    return SAMBA_OK;
}

/* Each thread's part of whole large pages, which become its own. */
static void clear_part(void *argument, int thread, int team)
{
    const samba_host_memory *memory = argument;
    const size_t size = memory->size, part = (size / (size_t)team + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    size_t begin = (size_t)thread * part, end = thread + 1 < team && begin + part < size ? begin + part : size;
    if (begin < size)
        memset(memory->data + begin, 0, end - begin);
}

typedef struct owned_memory {
    const samba_host_memory *memory;
    const uint16_t *owners;
} owned_memory;

static void clear_owned(void *argument, int thread, int team)
{
    const owned_memory *owned = argument;
    const size_t size = owned->memory->size;
    for (size_t page = 0; page * LARGE_PAGE < size; page++)
        if (owned->owners[page] % team == thread) /* a smaller team has several shares each */
            memset(owned->memory->data + page * LARGE_PAGE, 0,
                   size - page * LARGE_PAGE < LARGE_PAGE ? size - page * LARGE_PAGE : LARGE_PAGE);
}

static int by_bytes(const void *a, const void *b)
{
    const samba_buffer *x = *(const samba_buffer *const *)a, *y = *(const samba_buffer *const *)b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes) : (x > y) - (x < y);
}

static uint16_t owner_of(int64_t at, int64_t bytes, int threads) { return (uint16_t)((double)at / (double)bytes * threads); }

samba_status samba_page_owners(const samba_plan *plan, int64_t bytes, int threads, samba_arena *arena, uint16_t **owners)
{
    const int64_t pages = (bytes + SAMBA_LARGE_PAGE - 1) / SAMBA_LARGE_PAGE;
    const samba_buffer **sorted = samba_arena_alloc(arena, (size_t)plan->buffer_count * sizeof *sorted);
    *owners = samba_arena_alloc(arena, (size_t)pages * sizeof **owners);
    if (!*owners || !sorted)
        return SAMBA_ERROR_MEMORY;
    for (int64_t page = 0; page < pages; page++)
        (*owners)[page] = owner_of(page, pages, threads);
    for (int32_t i = 0; i < plan->buffer_count; i++)
        sorted[i] = &plan->buffers[i];
    qsort(sorted, (size_t)plan->buffer_count, sizeof *sorted, by_bytes);
    for (int32_t i = 0; i < plan->buffer_count; i++) {
        const samba_buffer *b = sorted[i];
        int64_t end = b->offset + b->bytes < bytes ? b->offset + b->bytes : bytes;
        for (int64_t page = b->offset / SAMBA_LARGE_PAGE; page * SAMBA_LARGE_PAGE < end; page++) {
            int64_t from = page * SAMBA_LARGE_PAGE, to = from + SAMBA_LARGE_PAGE;
            from = from > b->offset ? from : b->offset;
            to = to < end ? to : end;
            (*owners)[page] = owner_of((from + to) / 2 - b->offset, b->bytes, threads);
        }
    }
    return SAMBA_OK;
}

samba_status samba_host_memory_new(samba_context *context, int64_t bytes, int threads, samba_host_memory *memory)
{
    return samba_host_memory_new_for(context, bytes, threads, NULL, memory);
}

samba_status samba_host_memory_new_for(samba_context *context, int64_t bytes, int threads, const uint16_t *owners,
                                       samba_host_memory *memory)
{
    *memory = (samba_host_memory){.context = context, .size = bytes > 0 ? (size_t)bytes : 1};
    SAMBA_TRY(check_machine(context, bytes));
    char *data = samba_alloc(context, memory->size);
    if (!data)
        return samba_fail(
            context, SAMBA_ERROR_MEMORY,
            "no memory for the %lld bytes of device memory that the PEF needs: free something or compile with a smaller "
            "batch or model",
            (long long)bytes);
    samba_ask_for_large_pages(data, memory->size);
    memory->data = data;
    const owned_memory owned = {memory, owners};
    const int team = memory->size > LARGE_PAGE ? threads : 1;
    samba_team(team, owners ? clear_owned : clear_part, owners ? (void *)&owned : memory);
    return SAMBA_OK;
}

void samba_host_memory_free(samba_host_memory *memory)
{
    if (memory->data)
        samba_free(memory->context, memory->data, memory->size);
    memory->data = NULL;
}
