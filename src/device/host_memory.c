/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory that is host memory. The threads that will work on it touch it first, so that on machines with several memories
 * each page lies near a thread; large pages are asked for where the system gives them on request, since stages walk through all
 * of it. */
#include "base/team.h"
#include "device/device.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_PAGE ((size_t)2 << 20)

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

static void ask_for_large_pages(char *data, size_t size)
{
#ifdef MADV_HUGEPAGE
    uintptr_t begin = ((uintptr_t)data + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE,
              end = ((uintptr_t)data + size) / LARGE_PAGE * LARGE_PAGE;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* advice: nothing depends on the answer */
#else
    (void)data;
    (void)size;
#endif
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

samba_status samba_host_memory_new(samba_context *context, int64_t bytes, int threads, samba_host_memory *memory)
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
    ask_for_large_pages(data, memory->size);
    memory->data = data;
    samba_team(memory->size > LARGE_PAGE ? threads : 1, clear_part, memory);
    return SAMBA_OK;
}

void samba_host_memory_free(samba_host_memory *memory)
{
    if (memory->data)
        samba_free(memory->context, memory->data, memory->size);
    memory->data = NULL;
}
