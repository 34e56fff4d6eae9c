/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes, the context that carries memory and the last error message, and library version.
 *
 * Every fallible call returns a samba_status. When it is not SAMBA_OK the context the call worked under
 * holds one message that says what was expected, what was given and what to do. A context belongs to one
 * thread at a time; objects made under it keep a pointer to it and must be freed before it. A library has no other
 * state: threads with a context each never meet. */
#ifndef SAMBAFLOW_CONTEXT_H
#define SAMBAFLOW_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SAMBA_API __declspec(dllexport)
#else
#define SAMBA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samba_status {
    SAMBA_OK = 0,
    SAMBA_ERROR_MEMORY = 1,      /* the allocator gave no memory */
    SAMBA_ERROR_ARGUMENT = 2,    /* an argument that makes no sense by itself */
    SAMBA_ERROR_NAME = 3,        /* a name that is not there, or is there twice */
    SAMBA_ERROR_SHAPE = 4,       /* shapes that do not fit each other */
    SAMBA_ERROR_DTYPE = 5,       /* a dtype that the operation does not take */
    SAMBA_ERROR_STATE = 6,       /* right call, wrong moment */
    SAMBA_ERROR_FILE = 7,        /* the operating system refused a file; nothing already saved was changed */
    SAMBA_ERROR_FORMAT = 8,      /* a file's content is not what its format says */
    SAMBA_ERROR_UNSUPPORTED = 9, /* understood, but this build or machine cannot do it */
    SAMBA_ERROR_INTERNAL = 10,   /* our own mistake; please report it */
    SAMBA_ERROR_INDEX = 11,      /* a dim, or an index along one, that is not there */
    SAMBA_ERROR_NETWORK = 12     /* another replica failed, or the way to it */
} samba_status;

typedef struct samba_context samba_context;

typedef struct samba_literal { /* the bytes of a constant beside a graph's text, little endian */
    const void *data;
    int64_t size;
} samba_literal;

/* One hook for all memory of the library. Behaves as realloc with sizes:
 *   allocate(user, NULL, 0, n)      a new block of n > 0 bytes, aligned to 64 bytes, or NULL
 *   allocate(user, p, old, n)       the block moved or resized to n bytes, first min(old, n) bytes kept; NULL leaves p as it was
 *   allocate(user, p, old, 0)       frees p, returns NULL
 * `old` is always the size the block was asked for with. */
typedef struct samba_allocator {
    void *(*allocate)(void *user, void *block, size_t old_size, size_t new_size);
    void *user;
} samba_allocator;

/* Makes a context. `allocator` may be NULL for the C library's; it is copied. Returns SAMBA_ERROR_MEMORY, with
 * *context NULL, when there is no memory, and ARGUMENT when `context` is NULL. */
SAMBA_API samba_status samba_context_new(const samba_allocator *allocator, samba_context **context);

/* Frees a context; NULL is allowed. Everything made under it must have been freed. */
SAMBA_API void samba_context_free(samba_context *context);

/* The message of the last call that failed under this context; "" when none did. Valid until the next failure. A thread that
 * was refused since another one is using the same session is told so; the other's message is left alone. */
SAMBA_API const char *samba_error_message(const samba_context *context);

/* Leaves a message as the library's own calls do, and returns `status`: for functions of a program that the library calls and
 * that return a status, such as those of a source, with the context that they are given. Copied, cut at 1023 bytes. */
SAMBA_API samba_status samba_error_set(samba_context *context, samba_status status, const char *message);

/* A fixed, short English name of a status: "ok", "memory", "shape" ... */
SAMBA_API const char *samba_status_name(samba_status status);

/* "0.1.0"; numbers as in semantic versioning. */
SAMBA_API const char *samba_version(void);

#ifdef __cplusplus
}
#endif
#endif
