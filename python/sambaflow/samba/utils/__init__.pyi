# SPDX-License-Identifier: Apache-2.0
from sambaflow.samba.sntype import SNType as SNType
from sambaflow.samba.utils import argparser as argparser
from sambaflow.samba.utils import checkpoint as checkpoint
from sambaflow.samba.utils import common as common
from sambaflow.samba.utils import pef_utils as pef_utils
from sambaflow.samba.utils import utils as utils
from sambaflow.samba.utils.utils import get_file_dir as get_file_dir
from sambaflow.samba.utils.utils import get_local_rank as get_local_rank
from sambaflow.samba.utils.utils import get_rank as get_rank
from sambaflow.samba.utils.utils import get_world_size as get_world_size
from sambaflow.samba.utils.utils import init_output_grads as init_output_grads
from sambaflow.samba.utils.utils import is_main_process as is_main_process
from sambaflow.samba.utils.utils import measure_performance as measure_performance
from sambaflow.samba.utils.utils import measure_sections as measure_sections
from sambaflow.samba.utils.utils import set_seed as set_seed
from sambaflow.samba.utils.utils import trace_graph as trace_graph
from sambaflow.samba.utils.utils import trace_multigraph as trace_multigraph

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
