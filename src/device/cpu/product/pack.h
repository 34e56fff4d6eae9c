/* SPDX-License-Identifier: Apache-2.0
 *
 * How a contraction reaches its operands. A side of the product (rows, columns or the summed k) is cut along one of its dims into
 * blocks; a block is a box: some indices of the cut dim and all of the dims inside it. A source is an operand seen block by
 * block: samba_source_at says where (own block, k block) begins, and two axes tell where each index of either block lies from
 * there.
 *
 * Windows disappear here: the part of the image that a pair of blocks sees is copied once into a plane with its padding and
 * dilation zeros, where windows are plain strides. A stride of s pixels is undone in the plane too: its coordinates are sorted
 * by x mod s, so that neighbours along the wanted side lie together. An unrolled plane has an image for each step that the other
 * side takes along the last window, and rows without what only other steps see: all pixels of a plane lie in one run. Planes and
 * packed blocks live in the caller's scratch. */
#ifndef SAMBA_CPU_PACK_H
#define SAMBA_CPU_PACK_H

#include "device/cpu/machine.h"

static inline int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static inline int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* From a factor's first element to the first of a batch element, by its flat index. */
int64_t samba_batch_offset(const samba_contract *contract, const samba_factor *factor, int64_t batch);

typedef struct samba_split {
    int rank, cut; /* rank >= 1 */
    int64_t size[SAMBA_CONTRACT_RANK];
    int64_t step, inner;               /* a block has up to `step` indices of dim `cut`, each with `inner` elements */
    int64_t per, blocks, total, width; /* blocks along the cut dim, of all; elements of all, of the widest block */
} samba_split;
/* Blocks of at most about `target` elements, alike in size; steps of a last dim are multiples of `round` where there are
 * several. */
void samba_split_init(samba_split *split, int rank, const int64_t *size, int64_t target, int64_t round);

typedef struct samba_box {              /* of one block */
    int64_t index[SAMBA_CONTRACT_RANK]; /* of its first element */
    int64_t count, first, width;        /* indices of the cut dim; its first element among all; elements */
} samba_box;
samba_box samba_split_box(const samba_split *split, int64_t block);

/* Element offsets of a block's indices. Each `run` indices from a multiple of run lie `stride` apart. A narrower last block
 * uses the first of them. */
typedef struct samba_axis {
    int64_t count, run, stride;
    int64_t *offset; /* NULL until samba_source_tables */
} samba_axis;

typedef struct samba_plane_dim { /* a dim with images of its own: windows do not cover it, or not in this plane */
    bool inner;
    int dim;
    int64_t size, stride, shift, pitch; /* from one index to the next: in memory, along the last window, in the plane */
} samba_plane_dim;
typedef struct samba_plane_window {
    /* coordinates held, the lowest `origin` below that of the blocks' first elements; sorted by mod phases, `per` of each of the
     * first `filled` */
    int64_t length, origin, phases, filled, per, pitch, phase_pitch;
} samba_plane_window;

typedef struct samba_source {
    const samba_cpu_machine *machine;
    int class_;
    samba_factor factor; /* dims as in the splits */
    const char *memory;  /* element at index 0 of everything */
    samba_split own, inner;
    bool kept;   /* packs of it are made once, at refresh: packing costs a run nothing */
    bool native; /* elements lie in memory (or in the plane) as the sums' type */
    int64_t memory_size, element_size;
    samba_axis own_axis, inner_axis;
    bool sort_own, unrolled;
    int plane_rank;
    samba_plane_dim plane_dims[2 * SAMBA_CONTRACT_RANK];
    samba_plane_window plane_windows[SAMBA_CONTRACT_WINDOWS];
    int64_t image_size, plane_bytes; /* elements of windows alone; bytes of all, 0: no plane */
} samba_source;

/* Works out planes and axes (without tables) from factor, splits, class and kernels. sort_own: neighbours along own blocks
 * shall lie together, else those along k. With source->unrolled set, as many of them as possible, at the price of copies. False
 * where its windows reach over more elements than a machine's memory has. */
bool samba_source_describe(samba_source *source, bool sort_own);
bool samba_source_is_far(const samba_source *source, bool inner); /* k's indices, or own ones, lead pages apart in memory */
int64_t samba_source_step(const samba_source *source, int dim);   /* from one index of an own dim to the next, within a block */
samba_status samba_source_tables(samba_source *source, samba_arena *arena);
const char *samba_source_at(const samba_source *source, int64_t batch_offset, const samba_box *own, const samba_box *inner,
                            char *plane);

/* d[i*ldd + j] = the element at rows[i] + cols[j] of source, as the sums' type; from memory, or from a plane. */
void samba_pack(const samba_source *source, const char *at, const samba_axis *rows, int64_t row_count, const samba_axis *cols,
                int64_t col_count, char *d, int64_t ldd);
double samba_pack_cost(const samba_source *source, const samba_axis *rows, const samba_axis *cols); /* ns an element, about */

#endif
