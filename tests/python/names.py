# SPDX-License-Identifier: Apache-2.0
"""Every name of the documents, where it is implemented and tested: makes docs/names.md, and says whether it is what it should be.

Usage: names.py [--write]"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "names.md"
# document -> (where its names live, {test file: names tested there}, names that are not there yet)
DOCUMENTS = {
    "samba.sambatensor: SambaTensor": (
        "sambaflow.samba.SambaTensor",
        {
            "test_document_tensor.py": """__getitem__ __setitem__ backward bfloat16 bool clear_data data_ptr dim element_size float int is_fast_access
            is_floating_point item long materialize_ ndimension nelement new_empty new_full new_ones new_zeros numel permute requires_grad_ reshape
            reusable short size stride to torch torch_tensor type type_as view_as T data device dtype fast_access grad materializer materializer_provided
            ndim requires_grad shape sn_grad_name sn_name sn_region_name""",
            "test_document_session.py": "cpu cpu_ rdu sn_data sn_grad",
        },
        "",
    ),
    "samba.sambatensor: functions": ("sambaflow.samba", {"test_document_tensor.py": "from_torch_tensor to_torch"}, ""),
    "samba.session": (
        "sambaflow.samba.session",
        {
            "test_document_session.py": """compile run get_argin_names get_samba_tensor_by_name get_section_types get_tensors get_tensors_by_name get_weight_names
            samba_profile start_samba_profile end_samba_profile profiler sync_buffers_to_cpu sync_buffers_to_rdu to_cpu to_cpu_ to_rdu to_device update_tensor
            disable_graphamp reset get_dropout_rate_argin_names get_dropout_seed_argin_names atexit_register""",
            "test_document_slides.py": "tracing use_static_functional",
            "test_session_run.py": "reset_random_generator",
        },
        """add_graph compile_multigraph init_multigraph_runtime setup enable_lazy_param disable_lazy_param use_lazy_param enable_pinned_memory
        disable_pinned_memory use_pinned_memory start_runtime_profile end_runtime_profile use_abexit use_legacy_names""",
    ),
    "samba.utils": (
        "sambaflow.samba.utils",
        {
            "test_document_session.py": "init_output_grads trace_graph",
            "test_document_slides.py": "measure_performance measure_sections get_file_dir",
            "test_document_tensor.py": "set_seed",
        },
        "trace_multigraph",
    ),
    "slides: application": (
        "sambaflow.samba",
        {
            "test_document_slides.py": """from_torch_model_ optim.SGD utils.argparser.parse_app_args utils.common.common_app_driver sambaloader.SambaLoader
            randn randint rand""",
            "test_models.py": "optim.AdamW",
        },
        "",
    ),
}


def page():
    """The text of docs/names.md."""
    lines = ["# Names of the documents", "", "Made by `tests/python/names.py --write`; `make check-torch` fails when it is not what that makes.", ""]
    for document, (home, tests, missing) in DOCUMENTS.items():
        lines += [f"## {document}", "", "| name | implemented | tested in |", "| --- | --- | --- |"]
        rows = [(name, f"`{home}.{name}`", f"`tests/python/{test}`") for test, names in tests.items() for name in names.split()]
        rows += [(name, "not yet", "") for name in missing.split()]
        lines += [f"| {' | '.join(row)} |" for row in sorted(rows, key=lambda row: row[0].lower())] + [""]
    return "\n".join(lines[:-1]) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/names.md is stale: run tests/python/names.py --write")
