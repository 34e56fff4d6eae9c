/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of some sections, by types or by ids: run_types(session, TYPES("FWD", "BCKWD")), run_ids(session, IDS(0, 2)). Inputs have been
 * set. Include after training.h. */
#ifndef SAMBA_TEST_SECTIONS_H
#define SAMBA_TEST_SECTIONS_H

#define TYPES(...)                                                                                                               \
    LENGTH(((const char *const[]){__VA_ARGS__})), (const char *const[]) { __VA_ARGS__ }
#define IDS(...)                                                                                                                 \
    LENGTH(((const int[]){__VA_ARGS__})), (const int[]) { __VA_ARGS__ }

static inline samba_status run_types(samba_session *session, int count, const char *const *types)
{
    samba_run_options r = samba_run_defaults();
    r.section_types = types;
    r.section_type_count = count;
    return samba_run(session, &r);
}

static inline samba_status run_ids(samba_session *session, int count, const int *ids)
{
    samba_run_options r = samba_run_defaults();
    r.section_ids = ids;
    r.section_id_count = count;
    return samba_run(session, &r);
}

#endif
