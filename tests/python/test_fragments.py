# SPDX-License-Identifier: Apache-2.0
"""No code of the documents is left out: each line of each fragment stands, in its place, in a test or an example that runs."""

import pytest
from fragments import DOCUMENTS, FINDERS, fragments, holds, programs

# Lines that are not Python, or that a fragment leaves unfinished. They stand in comments above what is run in their place.
QUOTED = {
    "python <app>.py compile -b=64 -mb=4": "a command line",
    "python <app>.py run -b=64 -mb=4": "a command line",
    "--inference -p <app.pef>": "its second line",
    "SambaLoader(torch_loader: Iterable[Iterable[torch.Tensor]], names: List[str])": "a signature",
    "data_loader = DataLoader(dataset, batch_size=args.bs,...)": "ends in dots",
    "samba.session.run(input_tensors=[X_val, Y_val],...)": "ends in dots",
}
# How many lines the rules of fragments.py find: fewer would mean that a rule has gone blind.
LINES = {
    "samba-session.txt": 28,
    "samba-tensor.txt": 60,
    "samba-utils.txt": 2,
    "pytorch-to-sambaflow-slides.txt": 131,
    "model-conversion-overview.txt": 7,
}


@pytest.mark.skipif(not DOCUMENTS.is_dir(), reason=f"the documents are not at {DOCUMENTS}")
@pytest.mark.parametrize("document", FINDERS)
def test_every_fragment_runs(document):
    found = fragments(document)
    assert sum(map(len, found)) == LINES[document]
    known = list(programs())
    missing = ["\n  ".join(lines) for lines in found if not any(holds(its, lines, QUOTED) for _, its in known)]
    assert not missing, "no test has\n  " + "\nnor\n  ".join(missing)


@pytest.mark.skipif(not DOCUMENTS.is_dir(), reason=f"the documents are not at {DOCUMENTS}")
def test_what_is_quoted_is_there():
    lines = {line for document in FINDERS for fragment in fragments(document) for line in fragment}
    assert not QUOTED.keys() - lines


def test_a_line_in_its_place():
    program = ["    a = 1  # one", "    b(a)", "    assert a == 1", "    >>> c"]
    for fragment in (["a = 1"], ["a = 1", "b(a)"], ["b(a)", "a == 1"], ["a = 1", "c"]):
        assert holds(program, fragment, ())
    for fragment in (["a = 2"], ["b(a)", "a = 1"], ["a = 1", "c", "d"]):
        assert not holds(program, fragment, ())
    assert holds(["    # f(...)", "f(1)"], ["f(...)"], ("f(...)",)) and not holds(["# f(1)"], ["f(1)"], ())
