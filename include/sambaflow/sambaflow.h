/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole library: build a model, compile it once, run it anywhere. A program that only runs PEFs needs session.h alone (and
 * links libsambaflow-run). */
#ifndef SAMBAFLOW_SAMBAFLOW_H
#define SAMBAFLOW_SAMBAFLOW_H

#include <sambaflow/adapter.h>
#include <sambaflow/app.h>
#include <sambaflow/checkpoint.h>
#include <sambaflow/compile.h>
#include <sambaflow/context.h>
#include <sambaflow/data.h>
#include <sambaflow/function.h>
#include <sambaflow/functional.h>
#include <sambaflow/graph.h>
#include <sambaflow/layers.h>
#include <sambaflow/lm.h>
#include <sambaflow/metric.h>
#include <sambaflow/multigraph.h>
#include <sambaflow/onnx.h>
#include <sambaflow/prepare.h>
#include <sambaflow/profile.h>
#include <sambaflow/report.h>
#include <sambaflow/schedule.h>
#include <sambaflow/parallel.h>
#include <sambaflow/session.h>
#include <sambaflow/source.h>
#include <sambaflow/tensor.h>
#include <sambaflow/text.h>
#include <sambaflow/train.h>
#include <sambaflow/transformer.h>
#include <sambaflow/warning.h>

#endif
