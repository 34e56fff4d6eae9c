/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a range, one for each replica, as even as whole lines of memory allow: so a part's loops are those of the whole range,
 * and no line of memory is two replicas'. Where there are more replicas than lines, the last have nothing. */
#include "parallel/replicas.h"

int64_t samba_part_begin(int64_t count, int rank, int size)
{
    const int64_t lines = count / SAMBA_PART_ELEMENTS + (count % SAMBA_PART_ELEMENTS != 0), more = lines % size;
    const int64_t begin = (lines / size * rank + (rank < more ? rank : more)) * SAMBA_PART_ELEMENTS;
    return begin < count ? begin : count;
}

int64_t samba_part_begin_within(int64_t whole, int64_t first, int64_t count, int rank, int size)
{
    const int64_t begin = samba_part_begin(whole, rank, size) - first;
    return begin < 0 ? 0 : begin < count ? begin : count;
}
