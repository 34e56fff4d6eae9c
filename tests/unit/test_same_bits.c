/* SPDX-License-Identifier: Apache-2.0
 *
 * A function of an element gives the same bits wherever in a tile it stands, and however long the tile is: what backward computes
 * again must be equal to what forward had, or a comparison with it (the gradient of amax) finds nothing. Vector code and plain
 * code of the C library's functions are not equal, so a kernel may not use one for whole vectors and the other for the rest. */
#include "harness.h"
#include "device/cpu/kernel.h"
#include "noise.h"

enum { SIZE = 40 };
static uint64_t seed;

static void draw(samba_register_class class_, bool positive, void *values)
{
    static const samba_dtype dtypes[] = {[SAMBA_F32] = SAMBA_FLOAT32, [SAMBA_F64] = SAMBA_FLOAT64, [SAMBA_I64] = SAMBA_INT64};
    for (int i = 0; i < SIZE; i++) {
        double x = (double)(next_seed(&seed) >> 11) * 0x1p-53 * 6 - (positive ? 0 : 3);
        samba_store_double(dtypes[class_], (char *)values + i * (int64_t)samba_dtype_size(dtypes[class_]),
                           class_ == SAMBA_I64 ? 8 * x : x);
    }
}

static void check(samba_isa isa, int op, samba_register_class class_, samba_map_fn *map)
{
    /* room for what a comparison or a conversion of any class writes */
    _Alignas(64) double a[SIZE], b[SIZE], c[SIZE], whole[SIZE], part[SIZE];
    const size_t size = class_ == SAMBA_F32 ? 4 : 8;
    for (int positive = 0; positive < 2; positive++) {
        draw(class_, positive, a);
        draw(class_, true, b);
        draw(class_, false, c);
        memset(whole, 0, sizeof whole);
        map(whole, a, b, c, SIZE);
        const bool narrow = op == SAMBA_TILE_not_zero || (op >= SAMBA_TILE_eq && op <= SAMBA_TILE_ge); /* they give float32 */
        const size_t given = narrow ? 4 : size;
        for (int from = 0; from < SIZE; from++)
            for (int n = 1; n <= SIZE - from; n++) {
                memset(part, 0, sizeof part);
                map(part, (const char *)a + (size_t)from * size, (const char *)b + (size_t)from * size,
                    (const char *)c + (size_t)from * size, n);
                if (memcmp(part, (const char *)whole + (size_t)from * given, (size_t)n * given) != 0)
                    fail_msg("%s of class %d, %s: %d elements from %d on are other bits alone than among %d",
                             samba_tile_table[op].name, (int)class_, samba_isa_names[isa], n, from, SIZE);
            }
    }
}

TEST(one_value_wherever_it_stands)
{
    seed = random_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    int checked = 0;
    SAMBA_EACH_KERNELS (isa) {
        const samba_kernels *kernels = samba_kernels_for((samba_isa)isa);
        for (int op = 0; op < SAMBA_TILE_COUNT; op++)
            for (int class_ = 0; class_ < 3; class_++) {
                const samba_tile_form form = samba_tile_table[op].form;
                if ((form == SAMBA_FORM_UNARY || form == SAMBA_FORM_BINARY || form == SAMBA_FORM_COMPARE) &&
                    kernels->map[op][class_]) {
                    check((samba_isa)isa, op, (samba_register_class)class_, kernels->map[op][class_]);
                    checked++;
                }
            }
    }
    print_message("%d kernels\n", checked);
    assert_true(checked > 100);
}

TEST_MAIN(one_value_wherever_it_stands)
