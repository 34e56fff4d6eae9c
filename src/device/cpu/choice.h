/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices of the CPU device (samba_choice): the ways that a stage could be prepared beside the one that the model of the machine
 * takes. A choice is a road and a few of the machine's figures replaced. The rows of choices.def and product/roads.def say which
 * figures of which group, and how many times as large; a choice that these rows do not make is refused, so a file of choices can
 * ask for nothing that tuning could not have tried on the same machine. */
#ifndef SAMBA_CPU_CHOICE_H
#define SAMBA_CPU_CHOICE_H

#include "device/cpu/machine.h"

/* Choice number `index` of a kind of stage, and true; false: there are no more. Whether it leads anywhere, preparing says. */
bool samba_cpu_choice_at(const samba_cpu_machine *machine, samba_stage_kind kind, int index, samba_choice *choice);
/* ARGUMENT, by field, what was expected and what was given, unless the rows could have made it. */
samba_status samba_cpu_choice_check(samba_context *context, const samba_cpu_machine *machine, const samba_stage *stage,
                                    int32_t number, const samba_choice *choice);
/* The machine as the choice has it. */
void samba_cpu_choice_apply(const samba_choice *choice, samba_cpu_machine *machine);

#endif
