# SPDX-License-Identifier: Apache-2.0
"""ONNX's own test cases, of nodes and of small models, through sambaflow.onnx_backend: each passes or is refused with its reason.
What is refused stands in onnx_refused.txt, so that it can neither grow nor shrink unnoticed; `python test_onnx_nodes.py --write`
writes it anew.

Random operators are compared by shape and dtype alone: ONNX does not say which numbers they give."""

import collections
import dataclasses
import pathlib
import re
import sys

import numpy
import onnx.numpy_helper
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

import onnx
import sambaflow.onnx_backend as backend
from sambaflow.errors import UnsupportedError

REFUSED = pathlib.Path(__file__).parent / "onnx_refused.txt"
RANDOM = re.compile("bernoulli|training_dropout(?!.*zero_ratio)")
TRAINS = "training_dropout"
# What a result may differ by, relative and of the greatest value: a few units in the last place of sums of some hundred terms.
CLOSE = {"float16": (4e-3, 1e-3), "bfloat16": (2e-2, 1e-2)}
LEAST = 0.85  # of all cases of nodes
MODELS = ("simple", "pytorch-converted", "pytorch-operator")  # suites of models in files
KINDS = {
    "tensor_type": (onnx.TensorProto, onnx.numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, onnx.numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, onnx.numpy_helper.to_optional),
}


def array_of(x):
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def value_in(path, info):
    proto, convert = KINDS[info.type.WhichOneof("value")]
    return convert(proto.FromString(path.read_bytes()))


def model_case(case):
    """The same case with its model and data."""
    folder = pathlib.Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sides = (("input", model.graph.input), ("output", model.graph.output))
    sets = [
        [
            [value_in(data / f"{kind}_{i}.pb", info) for i, info in enumerate(infos) if (data / f"{kind}_{i}.pb").exists()]
            for kind, infos in sides
        ]
        for data in sorted(folder.glob("test_data_set_*"))
    ]
    return dataclasses.replace(case, model=model, data_sets=sets)


def all_cases():
    """{suite: its cases}."""
    suites = {"node": collect_testcases(None)}
    for suite in MODELS:
        suites[suite] = [model_case(case) for case in load_model_tests(kind=suite)]
    return suites


def compare(name, given, expected, case):
    expected = numpy.asarray(expected)
    assert (given.dtype, given.shape) == (expected.dtype, expected.shape), name
    if RANDOM.search(name) or expected.size == 0:
        return
    kind = expected.dtype.name
    if "float" not in kind:
        numpy.testing.assert_array_equal(given, expected, name)
        return
    relative, of_greatest = CLOSE.get(kind, (1e-3, 1e-6))
    given, expected = given.astype("float64"), expected.astype("float64")
    greatest = numpy.max(numpy.abs(expected[numpy.isfinite(expected)]), initial=0)
    numpy.testing.assert_allclose(given, expected, max(case.rtol, relative), max(1e-9, greatest * of_greatest), err_msg=name)


def outcome(case):
    """None where the case passes, else why it is refused. A wrong result raises."""
    try:
        rep = backend.SambaFlowRep(case.model, **({"train": True} if TRAINS in case.name else {}))
        for inputs, outputs in case.data_sets:
            given = rep.run([array_of(x) for x in inputs])
            assert len(given) == len(outputs)
            for result, expected in zip(given, outputs):
                compare(case.name, result, array_of(expected), case)
    except UnsupportedError as error:
        return re.sub(r"node '[^']*' ", "", str(error)).split("; ")[0]
    return None


def reason_of(why):
    """The kind of reason that a sentence gives, as the table counts them."""
    for words, kind in (
        ("there is no such operator", "operators newer than version 23, and previews"),
        ("float8", "floats of 8, 6 and 4 bits"),
        ("float4", "floats of 8, 6 and 4 bits"),
        ("object", "texts"),
        ("text", "texts"),
        ("n-grams", "texts"),
        ("images", "images that are files"),
        ("sequence", "sequences, maps, optionals"),
        (" is a list", "sequences, maps, optionals"),
        ("absent", "sequences, maps, optionals"),
        ("depends on data", "shapes that depend on data"),
    ):
        if words in why:
            return kind
    return "others"


def outcomes():
    return {suite: {case.name: outcome(case) for case in cases} for suite, cases in all_cases().items()}


@pytest.fixture(scope="module")
def refused():
    return outcomes()


def test_every_case_passes_or_is_refused(refused):
    nodes = refused["node"].values()
    assert sum(why is None for why in nodes) >= LEAST * len(nodes)
    assert text_of(refused) == REFUSED.read_text(encoding="utf-8")


def text_of(refused):
    lines = ["# Cases of ONNX's tests that are refused: how many of a kind, then each. Written by test_onnx_nodes.py --write."]
    for suite, results in refused.items():
        kinds = collections.Counter(reason_of(why) for why in results.values() if why)
        lines += [
            f"# {suite}: {len(results)} cases of onnx {onnx.__version__}, {sum(why is None for why in results.values())} pass.",
            *(f"# {count:4} {kind}" for kind, count in sorted(kinds.items(), key=lambda row: (-row[1], row[0]))),
            *(f"{name}: {why}" for name, why in sorted(results.items()) if why),
        ]
    return "\n".join(lines) + "\n"


def test_dropout_and_its_mask():
    node = onnx.helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"])
    x = numpy.float32(range(-500, 500))
    y, mask = backend.run_node(node, [x, numpy.float32(0.25), numpy.bool_(True)], train=True)
    assert mask.dtype == bool and 650 < mask.sum() < 850
    numpy.testing.assert_allclose(y, numpy.where(mask, x / 0.75, 0), rtol=1e-6)


def test_one_node():
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    (c,) = backend.run_node(node, [numpy.float32([1, 2]), numpy.float32([3])])
    assert c.tolist() == [4, 5]


def test_other_shapes_and_values_are_compiled_again():
    sizes = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])]
    sizes.append(onnx.helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [2]))
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b"])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", sizes, [out])
    rep = backend.prepare(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]))
    for size, shape in ((6, (2, 3)), (6, (3, 2)), (4, (2, 2)), (0, (0, 5))):
        x = numpy.arange(size, dtype="float32")
        assert rep.run([x, numpy.int64(shape)])[0].shape == shape
    with pytest.raises(ValueError, match="device is 'CUDA': the CPU is supported"):
        backend.prepare(onnx.helper.make_model(graph), "CUDA")


if __name__ == "__main__" and "--write" in sys.argv:
    REFUSED.write_text(text_of(outcomes()), encoding="utf-8")
