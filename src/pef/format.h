/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a PEF around its message; docs/pef.md says the same for people. Numbers are little-endian and doubles IEEE 754, as
 * in the memory of every machine this runs on; the two probes refuse a file on any other.
 *
 *   0                 samba_pef_header, 128 bytes
 *   message_offset    the protobuf message samba.pef.Plan, then zeros up to a multiple of 64
 *   blobs_offset      blobs, each followed by zeros up to a multiple of 64; the file ends with the last
 *
 * Every byte is under a checksum: the header's under header_checksum, all others under body_checksum. */
#ifndef SAMBA_PEF_FORMAT_H
#define SAMBA_PEF_FORMAT_H

#include "plan/plan.h"

#define SAMBA_PEF_MAGIC "SAMBAPEF"
#define SAMBA_PEF_ENDIAN 0x01020304u
#define SAMBA_PEF_NUMBER (-123456.789)
#define SAMBA_PEF_ALIGN ((int64_t)64)
#define SAMBA_PEF_LARGEST_FILE ((int64_t)16 << 30)
#define SAMBA_PEF_LARGEST_MESSAGE ((int64_t)256 << 20) /* bounds the memory that reading it takes */

typedef struct samba_pef_header {
    char magic[8];
    uint32_t version, endian;
    double number;
    int64_t file_length;
    uint64_t body_checksum;    /* XXH3-64 of all bytes behind the header */
    uint32_t tile_count, zero; /* tile operators that the writer knew */
    uint64_t tile_signature;   /* of those: samba_pef_tile_signature */
    int64_t message_offset, message_length, blobs_offset, blobs_length;
    uint64_t reserved[4];     /* 0 */
    uint64_t header_checksum; /* XXH3-64 of the header's bytes before it */
} samba_pef_header;
_Static_assert(sizeof(samba_pef_header) == 128, "the header's layout is part of the format");

static inline int64_t samba_pef_align(int64_t offset)
{
    return (offset + SAMBA_PEF_ALIGN - 1) / SAMBA_PEF_ALIGN * SAMBA_PEF_ALIGN;
}

/* Hash of the names and forms of the first `count` tile operators. Operators are only ever added at the end, so a library reads
 * every file whose operators are a beginning of its own table. */
uint64_t samba_pef_tile_signature(uint32_t count);

/* older.c: phases of the sections of a file that numbers GRADNORM and REDUCE the other way. */
void samba_pef_number_phases(samba_plan *plan);
/* older.c: roles of the tensors of a file that does not say them. */
void samba_pef_find_roles(samba_plan *plan);

typedef struct samba_pef_ranks { /* how many numbers the lists of a message have whose length is another message's: fields.def */
    int32_t batch, own, inner;
} samba_pef_ranks;

#endif
