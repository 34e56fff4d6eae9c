/* SPDX-License-Identifier: Apache-2.0
 *
 * The foundation of every room: failing with a message, memory through the context's hook, arenas, growing arrays, text building,
 * checked arithmetic and hashing. Nothing here knows tensors or graphs.
 *
 * Ownership: a block belongs to its allocator and is freed with its size. An arena frees all its blocks at once. */
#ifndef SAMBA_BASE_H
#define SAMBA_BASE_H

#include <limits.h>
#include <sambaflow/context.h>
#include <stdarg.h>
#include <stdio.h>

/* Passes a failure on to the caller. The only control-flow macro of the library. */
#define SAMBA_TRY(call)                                                                                                          \
    do {                                                                                                                         \
        samba_status samba_try_status_ = (call);                                                                                 \
        if (samba_try_status_ != SAMBA_OK)                                                                                       \
            return samba_try_status_;                                                                                            \
    } while (0)

#define SAMBA_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define SAMBA_ALIGNMENT 64

/* ---- errors (base/context.c) ---- */
/* Records the message and returns `status`; never allocates. Longer messages are cut at 1023 bytes. */
samba_status samba_fail(samba_context *context, samba_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* How often that was called under this context: whether a function of the program's own has left a message. */
int64_t samba_failed(const samba_context *context);
/* The same for a call that must not touch the context, since another thread is using it:
 * the message is this thread's alone, until its next failure. */
samba_status samba_fail_aside(const samba_context *context, samba_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory (base/context.c) ---- */
/* Uninitialised / zeroed blocks, 64-byte aligned. NULL after recording SAMBA_ERROR_MEMORY. Size 0 gives a block of 1. */
void *samba_alloc(samba_context *context, size_t size);
void *samba_calloc(samba_context *context, size_t size);
void samba_free(samba_context *context, void *block, size_t size);
char *samba_strdup(samba_context *context, const char *text);
/* How many requests have been refused so far: for work that goes on after one and is to know in the end. */
int64_t samba_memory_refused(const samba_context *context);
void samba_strfree(samba_context *context, char *text); /* NULL allowed */
/* Grows `*items` (of item_size bytes each) so that `needed` fit, doubling; new room is zeroed. */
samba_status samba_grow(samba_context *context, void **items, size_t item_size, int64_t *capacity, int64_t needed);
#define SAMBA_GROW(context, items, capacity, needed) samba_grow(context, (void **)&(items), sizeof *(items), &(capacity), needed)
/* Copies the caller's options over defaults; struct_size tells how much of them the caller knew. */
samba_status samba_options_take(samba_context *context, const char *call, const void *given, size_t size, void *options);

/* ---- checked arithmetic: false on overflow or a negative operand ---- */
bool samba_mul_checked(int64_t a, int64_t b, int64_t *result);
bool samba_add_checked(int64_t a, int64_t b, int64_t *result);
/* Of any two, also of 0 and another; not negative. */
int64_t samba_greatest_common_divisor(int64_t a, int64_t b);

/* Large blocks are written page by page for the first time; with large pages, which some systems give on request alone, that
 * takes a third of the time. */
#define SAMBA_LARGE_PAGE ((int64_t)2 << 20)
void samba_ask_for_large_pages(void *data, size_t size);

/* ---- bytes that several owners share (base/blob.c) ---- */
typedef struct samba_blob {
    samba_context *context;
    char *data; /* aligned as any block, but for other memory's; never changes once sealed */
    int64_t size;
    uint64_t hash; /* of the bytes */
    int64_t owners;
    void (*release)(void *owner); /* of memory that is not the blob's own; NULL: it is */
    void *owner;
} samba_blob;
/* For the caller to fill and seal, who owns it until samba_blob_drop; NULL after recording MEMORY. */
samba_blob *samba_blob_new(samba_context *context, int64_t size);
void samba_blob_seal(samba_blob *blob);
samba_blob *samba_blob_copy(samba_context *context, const void *data, int64_t size); /* sealed */
/* Over memory of `owner`, which stays as it is until release(owner); sealed. On failure nothing is released. */
samba_blob *samba_blob_over(samba_context *context, const void *data, int64_t size, void (*release)(void *owner), void *owner);
void samba_blob_keep(samba_blob *blob);                          /* one owner more */
void samba_blob_drop(samba_blob *blob);                          /* one less; the last frees it. NULL allowed */
bool samba_blob_equal(const samba_blob *a, const samba_blob *b); /* of sealed ones: the same bytes */

/* ---- arena (base/arena.c) ---- */
typedef struct samba_arena_block samba_arena_block;
typedef struct samba_arena_kept samba_arena_kept;
typedef struct samba_arena {
    samba_context *context;
    samba_arena_block *blocks;
    samba_arena_kept *kept; /* blobs that the arena owns with others */
    size_t given, most;     /* bytes given out, and how many may be; 0: as many as there are */
    bool refused;           /* a request because of that */
} samba_arena;
void samba_arena_init(samba_arena *arena, samba_context *context);
/* From now on no request is met that would bring what was given out since it was empty above `most`. */
void samba_arena_bound(samba_arena *arena, size_t most);
void *samba_arena_alloc(samba_arena *arena, size_t size); /* zeroed, 64-byte aligned; NULL after recording MEMORY */
char *samba_arena_strdup(samba_arena *arena, const char *text);
/* The same as a status, with the block at *pointer, NULL where there is none: for `count` of what `pointer` points at;
 * for a copy of a text. */
#define SAMBA_ROOM(arena, pointer, count) samba_arena_room(arena, sizeof *(pointer) * (size_t)(count), &(pointer))
samba_status samba_arena_room(samba_arena *arena, size_t size, void *pointer);
samba_status samba_arena_copy(samba_arena *arena, const char *text, char **copy);
/* Room for one element more behind `count`: an array that is full, or NULL, becomes a copy of twice the room, an int64_t. */
#define SAMBA_MORE(arena, array, count, room) samba_arena_more(arena, &(array), sizeof *(array), count, &(room))
samba_status samba_arena_more(samba_arena *arena, void *array, size_t each, int64_t count, int64_t *room);
/* The arena becomes an owner of the blob until it is freed. */
samba_status samba_arena_keep(samba_arena *arena, samba_blob *blob);
void samba_arena_free(samba_arena *arena);

/* ---- bytes as text (hex.c) ---- */
/* Two digits a byte and a NUL: `text` has room for 2 * size + 1. */
void samba_hex_encode(const void *bytes, size_t size, char *text);
/* The other way; false when the text is not exactly 2 * size digits. `bytes` may be NULL: then it only checks. */
bool samba_hex_decode(const char *text, size_t size, void *bytes);

/* ---- text building (base/text.c): sticky, first failure kept ---- */
typedef struct samba_text {
    samba_context *context;
    char *data; /* NUL-terminated once anything was added */
    int64_t length, capacity;
    samba_status status;
} samba_text;
void samba_text_init(samba_text *text, samba_context *context);
void samba_text_add(samba_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins a text with what is added first: its status. */
samba_status samba_text_begin(samba_text *text, samba_context *context, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
samba_status samba_text_keep(samba_text *text, samba_arena *arena, char **kept); /* copies it, "" where it is empty; and clears */
void samba_text_clear(samba_text *text);                                         /* frees */

/* ---- names and texts of files, for people (base/shown.c): control characters, marks of direction and what is no UTF-8 as \x1b,
 * \u202e; ends of lines stay where `lines` says so ---- */
#define SAMBA_SHOWN 512
size_t samba_show(const char *text, bool lines, char *buffer, size_t size); /* cut at a whole character; returns the length */
const char *samba_shown(const char *text, char buffer[SAMBA_SHOWN]);        /* the buffer; NULL is "" */
void samba_text_show(samba_text *text, const char *shown, bool lines);
int samba_utf8_length(const char *text); /* bytes of the character at its beginning; 0: none is there */

/* ---- hashing and names ---- */
uint64_t samba_hash(const void *data, size_t size, uint64_t seed); /* XXH3-64: stable across machines of one endianness */
uint64_t samba_hash_parts(const void *const *parts, const size_t *sizes, int count); /* of all as one, with seed 0 */
bool samba_match(const char *pattern, const char *name);                             /* '*' and '?' */
bool samba_ends_with(const char *text, const char *ending);                          /* and something stands before it */
/* The candidate nearest to `name` by edit distance, else one that has all of its words; NULL when there is none: for "did you
 * mean". */
const char *samba_nearest(const char *name, const char *const *candidates, int count);

/* ---- texts that end another one (base/stop.c); none of them is empty ---- */
/* The first place in the text where one begins; -1: there is none. */
int64_t samba_stop_find(int64_t count, const char *const *stops, const char *text, int64_t length);
/* How many bytes at the text's end may be the beginning of one. */
int64_t samba_stop_begun(int64_t count, const char *const *stops, const char *text, int64_t length);

/* ---- files (base/file.c) ---- */
/* Writes all bytes to a new file beside `path`, flushes to disk (fsync), renames over `path`. On error `path` is as it was and
 * the temporary file is gone; the message has the path and the system's reason. */
samba_status samba_file_write_atomic(samba_context *context, const char *path, const void *const *parts, const size_t *sizes,
                                     int count);
/* The same of a file that can be made again, as a compiler's are: it goes to the disk before it takes its name only where another
 * file has that name and would be lost. */
samba_status samba_file_write_remade(samba_context *context, const char *path, const void *const *parts, const size_t *sizes,
                                     int count);
/* The same in two steps, for files that change together: publish renames what stage has written, or unstage removes it. After a
 * failure of either there is nothing to remove. */
typedef struct samba_file_staged {
    const char *path; /* the caller's */
    bool lasts;       /* it has reached the disk */
    char target[PATH_MAX], temporary[PATH_MAX + 48];
} samba_file_staged;
samba_status samba_file_stage(samba_context *context, const char *path, const void *const *parts, const size_t *sizes, int count,
                              bool remade, samba_file_staged *staged);
samba_status samba_file_publish(samba_context *context, samba_file_staged *staged);
void samba_file_unstage(const samba_file_staged *staged);
/* Renames a file; where it takes another's place it goes to the disk first. */
samba_status samba_file_move(samba_context *context, const char *from, const char *to);
/* FILE where samba_file_write_atomic cannot write as things stand now: to be asked before long work. */
samba_status samba_file_check_writable(samba_context *context, const char *path);
bool samba_file_same(const char *path, const char *other); /* both exist and are one, however they are spelled */
/* Reads a whole regular file; FILE for what the system refuses (a directory is named as such). *data is freed by samba_free. */
samba_status samba_file_read(samba_context *context, const char *path, void **data, size_t *size);
/* The same of its first `most` bytes, or all where it has fewer; `whole` is how many it has. */
samba_status samba_file_read_start(samba_context *context, const char *path, size_t most, void **data, size_t *size,
                                   size_t *whole);
samba_status samba_make_directories(samba_context *context, const char *path);

/* ---- plugins (base/plugin.c) ---- */
/* The library libsambaflow-NAME.so, which stays loaded, `global` with its names seen by all; NULL, and why, where it is not to be
 * had. */
void *samba_plugin_open(const char *name, bool global, char *reason, size_t size);

/* ---- the machine (base/host.c) ---- */
double samba_seconds(void);                         /* a clock that only goes forward */
void samba_processor_name(char *name, size_t size); /* what the processor calls itself; "" where nothing tells */
/* the same, by a file like /proc/cpuinfo */
void samba_processor_name_in(const char *path, char *name, size_t size);

#endif
