# SPDX-License-Identifier: Apache-2.0
from sambaflow.samba.utils import argparser as argparser, common as common, pef_utils as pef_utils, utils as utils
from sambaflow.samba.utils.utils import (
    get_file_dir as get_file_dir,
    get_rank as get_rank,
    get_world_size as get_world_size,
    init_output_grads as init_output_grads,
    is_main_process as is_main_process,
    measure_performance as measure_performance,
    measure_sections as measure_sections,
    set_seed as set_seed,
    trace_graph as trace_graph,
    trace_multigraph as trace_multigraph,
)

__all__ = [
    "get_file_dir",
    "get_rank",
    "get_world_size",
    "init_output_grads",
    "is_main_process",
    "measure_performance",
    "measure_sections",
    "set_seed",
    "trace_graph",
    "trace_multigraph",
]
