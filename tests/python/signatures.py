# SPDX-License-Identifier: Apache-2.0
"""Parameters of every function of the documents: their names, order and defaults, as the documents have them."""

import ast
import re

TENSOR = """
SambaTensor(torch_tensor=None, shape=None, dtype=None, name=None, batch_dim=None, named_dims=None, sized_dims=None, materializer=None, is_complex=None,
            region_name=None)
__getitem__(x)
__setitem__(x, update)
backward(gradient=None, retain_graph=None)
bfloat16()
bool()
clear_data()
cpu(inplace=False)
cpu_()
data_ptr()
dim()
element_size()
float()
int()
is_fast_access(name)
is_floating_point()
item()
long()
materialize_()
ndimension()
nelement()
new_empty(size, dtype=None, requires_grad=False)
new_full(size, fill_value, dtype=None, device=None, requires_grad=False)
new_ones(size, dtype=None, requires_grad=False)
new_zeros(size, dtype=None, requires_grad=False)
numel()
permute(*dims)
rdu()
requires_grad_(requires_grad=True)
reshape(*dims)
reusable()
short()
size(dim=None)
stride(dim=None)
to(*args, **kwargs)
torch()
torch_tensor()
type(dtype=None, non_blocking=False, **kwargs)
type_as(tensor)
view_as(other)
from_torch_tensor(tensor, name=None, batch_dim=None, named_dims=None, region_name=None)
to_torch(obj)
"""  # noqa: E501

SESSION = """
SambaSession(pef_path='')
add_graph(graph, overwrite=False)
atexit_register(func, *args, **kwargs)
compile(model, inputs, optimizers=None, name='', loss_indices=None, io_host_memory=None)
compile_multigraph(name='', samba_only=False, **kwarg)
disable_graphamp()
disable_lazy_param()
disable_pinned_memory()
enable_lazy_param(seed=None, init_threads=8, inverse_transform_sampling=False, fp32_to_bf16_rounding='nearest_even')
enable_pinned_memory()
end_runtime_profile(log_file='cprofile_tmp.log')
end_samba_profile(filename=None)
get_argin_names()
get_dropout_rate_argin_names()
get_dropout_seed_argin_names()
get_samba_tensor_by_name(name)
get_section_types()
get_tensors(samba_tensors)
get_tensors_by_name(names)
get_weight_names()
init_multigraph_runtime(pef, transfer_device=True)
reset(pef_path='')
reset_random_generator()
run(input_tensors=None, output_tensors=[], hyperparam_dict={}, data_parallel=False, reduce_on_rdu=False, section_ids=[], section_types=[],
    run_until_call_id=None, run_from_call_id=None, data_parallel_mode='normal', train=True)
samba_profile(filename=None)
setup(args)
start_runtime_profile(timer_enabled=True)
start_samba_profile()
sync_buffers_to_cpu(model, inplace=False)
sync_buffers_to_rdu(model)
to_cpu(model, optims=None, inplace=False)
to_cpu_(model, optims=None)
to_device()
to_rdu(model, optims=None)
update_tensor(name, tensor)
use_abexit(func, *args, **kwargs)
use_lazy_param()
use_legacy_names(use)
use_pinned_memory()
use_static_functional()
"""  # noqa: E501

UTILS = """
init_output_grads(output_tensors, unspecified_tensor_grad=[], customized_tensors_dict={}, is_variable_batch_size=False)
trace_graph(model, inputs, optim=None, init_output_grads=True, loss_indices=None, pef='', mapping='section', data_parallel_mode='normal',
            transfer_device=True)
trace_multigraph(graph, inputs, optimizers=None, init_output_grads=None, mapping='', trace_prefix=None)
"""  # noqa: E501

DOCUMENTED = {"samba-tensor.txt": TENSOR, "samba-session.txt": SESSION, "samba-utils.txt": UTILS}


def parameters(arguments):
    """[(name, default as text; None without one)], stars in the names."""
    args = arguments.args
    defaults = [None] * (len(args) - len(arguments.defaults)) + [ast.unparse(x) for x in arguments.defaults]
    rows = [(x.arg, default) for x, default in zip(args, defaults) if x.arg != "self"]
    return rows + [(f"{stars}{x.arg}", None) for stars, x in (("*", arguments.vararg), ("**", arguments.kwarg)) if x]


def listed(text):
    """{name: parameters} of one of the lists above."""
    calls = re.split(r"\n(?=\w)", text.strip())
    functions = [ast.parse(f"def {call}: pass").body[0] for call in calls]
    return {node.name: parameters(node.args) for node in functions}


def headings(text):
    """{name: parameters} of the headings of a document, whose types are left out."""
    found = {}
    for heading in re.findall(r"^(?:- )?(?:static |classmethod |class )?(\w+\(.*\)).*[#¶]$", text, re.M):
        end = depth = 0
        for end, letter in enumerate(heading):
            depth += (letter in "([") - (letter in ")]")
            if depth == 0 and letter == ")":
                break
        node = ast.parse(f"def {heading[: end + 1]}: pass").body[0]
        found[node.name] = parameters(node.args)
    return found
