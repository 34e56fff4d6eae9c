/* SPDX-License-Identifier: Apache-2.0
 *
 * What we call of libxsmm. The build copies these functions and all they need out of libxsmm.a into one object (xsmm.sh), under
 * the names below, and hides the rest: among it stand-ins for dgemm_, sgemm_ and others of BLAS, which would take the place of a
 * program's own. Each line of the form "#define libxsmm_X samba_xsmm_X" makes one more function available. */
#ifndef SAMBA_CPU_XSMM_H
#define SAMBA_CPU_XSMM_H

#include "device/cpu/kernel.h"

#if defined(__x86_64__)
#define libxsmm_get_target_archid samba_xsmm_get_target_archid
#define libxsmm_smmdispatch samba_xsmm_smmdispatch
#define libxsmm_dmmdispatch samba_xsmm_dmmdispatch
#define libxsmm_bsmmdispatch samba_xsmm_bsmmdispatch
#define libxsmm_get_registry_info samba_xsmm_get_registry_info
#include <libxsmm.h>

/* Has libxsmm the table of its kernels? It takes that memory once, when the process begins, and without it its dispatch reads
 * from address 0. Our own kernels do the work then. */
bool samba_xsmm_is_ready(void);
#endif

/* Is it there, and does it use no better instructions than these: the best there are, or what LIBXSMM_TARGET tells it? */
bool samba_xsmm_keeps_to(samba_isa isa);

#endif
