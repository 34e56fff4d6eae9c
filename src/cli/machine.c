/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow machine: what the CPU device knows of this machine and tunes itself by, as it is when a session opens. */
#include "cli/cli.h"
#include "device/device.h"

#include <math.h>
#include <string.h>

typedef struct listing { /* of facts, as they come */
    const char *group;   /* of the last one */
    json_t *json;        /* NULL: a table on standard output */
} listing;

/* 2.5e+09 as "2.5 G", with its unit; sizes in KiB and MiB. */
static const char *value_of(char cell[SAMBA_CELL], const samba_device_fact *fact)
{
    if (fact->text)
        return *fact->text ? fact->text : "not told";
    if (strcmp(fact->unit, "B") == 0)
        return samba_text_bytes(cell, fact->number);
    if (fabs(fact->number) >= 1e6)
        return samba_text_decimal(cell, fact->number, fact->unit);
    snprintf(cell, SAMBA_CELL, "%g%s%s", fact->number, *fact->unit ? " " : "", fact->unit);
    return cell;
}

static void show(void *to, const samba_device_fact *fact)
{
    listing *l = to;
    char cell[SAMBA_CELL];
    if (!l->group || strcmp(l->group, fact->group) != 0)
        printf("%s%s\n", l->group ? "\n" : "", fact->group);
    l->group = fact->group;
    printf("  %-22s %22s  %s\n", fact->name, value_of(cell, fact), fact->meaning);
}

static void add(void *to, const samba_device_fact *fact)
{
    json_t *json = ((listing *)to)->json, *group = json_object_get(json, fact->group);
    if (!group) {
        group = json_object();
        json_object_set_new(json, fact->group, group);
    }
    bool whole = !fact->text && fabs(fact->number) < 0x1p53 && fact->number == floor(fact->number);
    json_object_set_new(group, fact->name,
                        fact->text ? json_string(fact->text)
                        : whole    ? json_integer((json_int_t)fact->number)
                                   : samba_json_number(fact->number));
}

samba_status samba_cli_machine(samba_context *context, const samba_cli_arguments *arguments)
{
    const samba_device_options options = {.context = context, .threads = 1, .isa = samba_word_isa(arguments->isa)};
    listing list = {0};
    if (!arguments->json)
        return samba_device_cpu.describe(&options, show, &list);
    list.json = json_pack("{s:s}", "command", "machine");
    samba_status status = samba_device_cpu.describe(&options, add, &list);
    if (status == SAMBA_OK)
        return samba_json_print(context, list.json, stdout);
    json_decref(list.json);
    return status;
}
