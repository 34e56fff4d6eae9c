/* SPDX-License-Identifier: Apache-2.0
 *
 * The context: one allocator hook and one message. All memory of the library passes through here, always with its size, so a test
 * can refuse any single allocation and count the blocks that are still alive.
 *
 * Warnings of what is built wait in the context too, a few of them, until the program takes them.
 *
 * The message lives inside the context, so reporting that there is no memory needs none. A message is first built in a buffer of
 * its own: its arguments may be the previous message.
 *
 * One message cannot lie in the context: that for a thread which called a session while another thread used it. It is
 * thread-local, the one variable of the library that belongs to no object. */
#include "base/null.h"
#include "base/warn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MESSAGE_SIZE 1024
#define WARNING_SIZE 768
#define WARNINGS 8
#define LARGE ((size_t)8 << 20) /* bytes of a block that large pages are asked for */

struct samba_context {
    samba_allocator allocator;
    char message[MESSAGE_SIZE];
    int64_t refused; /* requests for memory */
    int64_t failed;  /* messages that were left */
    int warning_count;
    char warnings[WARNINGS][WARNING_SIZE]; /* those that wait, the oldest first */
    char told[WARNING_SIZE];
};

/* The message of samba_fail_aside to this thread, and its context; NULL: no message that still counts. */
static _Thread_local struct {
    const samba_context *context;
    char message[256];
} aside;

void samba_ask_for_large_pages(void *data, size_t size)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = SAMBA_LARGE_PAGE, begin = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + size) / page * page;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* advice: nothing depends on the answer */
#else
    (void)data;
    (void)size;
#endif
}

/* The C library's memory. aligned_alloc has no resizing twin, so a resize is a new block and a copy. */
static void *default_allocate(void *user, void *block, size_t old_size, size_t new_size)
{
    (void)user;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    if (new_size > SIZE_MAX - SAMBA_ALIGNMENT)
        return NULL;
    size_t rounded = (new_size + SAMBA_ALIGNMENT - 1) / SAMBA_ALIGNMENT * SAMBA_ALIGNMENT;
    void *fresh = aligned_alloc(SAMBA_ALIGNMENT, rounded);
    if (fresh && rounded >= LARGE)
        samba_ask_for_large_pages(fresh, rounded);
    if (fresh && block) {
        memcpy(fresh, block, old_size < new_size ? old_size : new_size);
        free(block);
    }
    return fresh;
}

samba_status samba_context_new(const samba_allocator *allocator, samba_context **context)
{
    samba_allocator chosen = {default_allocate, NULL};
    if (!context)
        return SAMBA_ERROR_ARGUMENT; /* there is nothing to hold a message */
    if (allocator)
        chosen = *allocator;
    *context = chosen.allocate(chosen.user, NULL, 0, sizeof(samba_context));
    if (!*context)
        return SAMBA_ERROR_MEMORY;
    if (aside.context == *context) /* an earlier one at the same address */
        aside.context = NULL;
    (*context)->allocator = chosen;
    (*context)->message[0] = '\0';
    (*context)->refused = 0;
    (*context)->failed = 0;
    (*context)->warning_count = 0;
    return SAMBA_OK;
}

void samba_context_free(samba_context *context)
{
    if (!context)
        return;
    samba_allocator allocator = context->allocator;
    allocator.allocate(allocator.user, context, sizeof(samba_context), 0);
}

const char *samba_error_message(const samba_context *context)
{
    if (!context)
        return "";
    return aside.context == context ? aside.message : context->message;
}

void samba_warn(samba_context *context, const char *text)
{
    char shown[WARNING_SIZE];
    samba_show(text, false, shown, sizeof shown);
    for (int i = 0; i < context->warning_count; i++)
        if (strcmp(context->warnings[i], shown) == 0)
            return;
    if (context->warning_count < WARNINGS)
        memcpy(context->warnings[context->warning_count++], shown, sizeof shown);
}

const char *samba_context_warning(samba_context *context)
{
    if (!context || context->warning_count == 0)
        return "";
    memcpy(context->told, context->warnings[0], WARNING_SIZE);
    memmove(&context->warnings[0], &context->warnings[1], WARNING_SIZE * (size_t)--context->warning_count);
    return context->told;
}

const char *samba_status_name(samba_status status)
{
    static const char *const names[] = {
        [SAMBA_OK] = "ok",
        [SAMBA_ERROR_MEMORY] = "memory",
        [SAMBA_ERROR_ARGUMENT] = "argument",
        [SAMBA_ERROR_NAME] = "name",
        [SAMBA_ERROR_SHAPE] = "shape",
        [SAMBA_ERROR_DTYPE] = "dtype",
        [SAMBA_ERROR_STATE] = "state",
        [SAMBA_ERROR_FILE] = "file",
        [SAMBA_ERROR_FORMAT] = "format",
        [SAMBA_ERROR_UNSUPPORTED] = "unsupported",
        [SAMBA_ERROR_INTERNAL] = "internal",
        [SAMBA_ERROR_INDEX] = "index",
        [SAMBA_ERROR_NETWORK] = "network",
    };
    return (int)status >= 0 && (int)status < SAMBA_COUNT(names) ? names[status] : "?";
}

const char *samba_version(void) { return "0.1.0"; }

samba_status samba_fail_null(samba_context *context, const char *call, const char *argument)
{
    return context ? samba_fail(context, SAMBA_ERROR_ARGUMENT, "%s: \"%s\" is NULL: give what include/sambaflow says of it", call,
                                argument)
                   : SAMBA_ERROR_ARGUMENT;
}

samba_status samba_fail(samba_context *context, samba_status status, const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0)
        message[0] = '\0';
    samba_show(message, false, context->message, sizeof context->message); /* it may name what a file holds */
    context->failed++;
    if (aside.context == context)
        aside.context = NULL;
    return status;
}

samba_status samba_fail_aside(const samba_context *context, samba_status status, const char *format, ...)
{
    char message[sizeof aside.message];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(message, sizeof message, format, arguments) < 0)
        message[0] = '\0';
    va_end(arguments);
    samba_show(message, false, aside.message, sizeof aside.message);
    aside.context = context;
    return status;
}

samba_status samba_error_set(samba_context *context, samba_status status, const char *message)
{
    return context ? samba_fail(context, status, "%s", message ? message : "") : status;
}

int64_t samba_failed(const samba_context *context) { return context->failed; }

int64_t samba_memory_refused(const samba_context *context) { return context->refused; }

void *samba_alloc(samba_context *context, size_t size)
{
    void *block = context->allocator.allocate(context->allocator.user, NULL, 0, size ? size : 1);
    if (!block && ++context->refused)
        samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for %zu bytes: free something or make the model or batch smaller",
                   size);
    return block;
}

void *samba_calloc(samba_context *context, size_t size)
{
    void *block = samba_alloc(context, size);
    if (block)
        memset(block, 0, size ? size : 1);
    return block;
}

void samba_free(samba_context *context, void *block, size_t size)
{
    if (block)
        context->allocator.allocate(context->allocator.user, block, size ? size : 1, 0);
}

char *samba_strdup(samba_context *context, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = samba_alloc(context, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void samba_strfree(samba_context *context, char *text)
{
    if (text)
        samba_free(context, text, strlen(text) + 1);
}

samba_status samba_grow(samba_context *context, void **items, size_t item_size, int64_t *capacity, int64_t needed)
{
    if (needed <= *capacity)
        return SAMBA_OK;
    int64_t wanted = *capacity < 8 ? 8 : *capacity, bytes;
    while (wanted < needed)
        if (!samba_mul_checked(wanted, 2, &wanted))
            wanted = needed;
    if (!samba_mul_checked(wanted, (int64_t)item_size, &bytes))
        return samba_fail(context, SAMBA_ERROR_MEMORY, "no memory for %lld items of %zu bytes: the size does not fit 63 bits",
                          (long long)wanted, item_size);
    size_t old_bytes = (size_t)*capacity * item_size;
    char *grown = context->allocator.allocate(context->allocator.user, *items, *items ? old_bytes : 0, (size_t)bytes);
    if (!grown && ++context->refused)
        return samba_fail(context, SAMBA_ERROR_MEMORY,
                          "no memory for %lld bytes: free something or make the model or batch smaller", (long long)bytes);
    memset(grown + old_bytes, 0, (size_t)bytes - old_bytes);
    *items = grown;
    *capacity = wanted;
    return SAMBA_OK;
}

samba_status samba_options_take(samba_context *context, const char *call, const void *given, size_t size, void *options)
{
    size_t known;
    memcpy(&known, given, sizeof known); /* struct_size is the first member of every options struct */
    if (known != size)                   /* a smaller one could end inside a field */
        return samba_fail(
            context, SAMBA_ERROR_ARGUMENT,
            "%s: its options say a struct_size of %zu and this library knows %zu: start from the function that gives defaults, "
            "and compile against this library's headers",
            call, known, size);
    memcpy(options, given, known);
    return SAMBA_OK;
}
