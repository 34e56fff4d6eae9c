/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function over values (torch.nn.functional and tensor operators), a header a family. */
#ifndef SAMBAFLOW_FUNCTIONAL_H
#define SAMBAFLOW_FUNCTIONAL_H

#include <sambaflow/activation.h>
#include <sambaflow/attention.h>
#include <sambaflow/conv.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/fourier.h>
#include <sambaflow/index.h>
#include <sambaflow/linalg.h>
#include <sambaflow/loss.h>
#include <sambaflow/norm.h>
#include <sambaflow/pool.h>
#include <sambaflow/recurrent.h>
#include <sambaflow/reduce.h>
#include <sambaflow/resample.h>
#include <sambaflow/shape.h>
#include <sambaflow/sort.h>

#endif
