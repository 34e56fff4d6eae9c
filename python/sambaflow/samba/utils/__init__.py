# SPDX-License-Identifier: Apache-2.0
"""What programs use around a session."""

# Programs name them so after `import sambaflow.samba`.
from sambaflow.samba.sntype import SNType
from sambaflow.samba.utils import argparser, checkpoint, common, pef_utils, utils
from sambaflow.samba.utils.utils import (
    get_file_dir,
    get_local_rank,
    get_rank,
    get_world_size,
    init_output_grads,
    is_main_process,
    measure_performance,
    measure_sections,
    set_seed,
    trace_graph,
    trace_multigraph,
)

__all__ = [
    "SNType",
    "get_file_dir",
    "get_local_rank",
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
