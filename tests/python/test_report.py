# SPDX-License-Identifier: Apache-2.0
"""The page of a session: one HTML file without a network, whose numbers are those of the plan, of what was measured and of
arithmetic; names are text whatever they hold; a chromium that is installed draws it."""

import html.parser
import json
import re
import shutil
import subprocess
import time

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow import report, runtime
from sambaflow.samba.graph import FwdGraph

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'\\u003c\u2028é"


class Page(html.parser.HTMLParser):
    """What a page holds: its elements, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts = [], []
        self.feed(text)
        self.close()
        self.numbers = json.loads(next(text for attributes, text in self.scripts if attributes.get("id") == "numbers"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data):
        if self.cdata_elem == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(40, 30), torch.nn.Linear(30, 10)

    def forward(self, x, label):
        y = self.second(torch.nn.functional.relu(self.first(x)))
        return torch.nn.functional.cross_entropy(y, label), y


@pytest.fixture
def traced(tmp_path):
    samba.session.reset()
    model = samba.from_torch_model_(Model())
    optim = samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs = samba.randn(8, 40, name="x"), samba.from_torch_tensor(torch.randint(10, (8,)), name="label")
    pef = samba.session.compile(
        model, inputs, optim, HOSTILE.replace("/", "|"), loss_indices=[(0,)], output_folder=str(tmp_path), pef_name="small"
    )
    outputs = utils.trace_graph(model, inputs, optim, loss_indices=[(0,)], pef=pef)
    yield inputs, outputs, pef
    samba.session.reset()


def test_plan_alone(traced):
    inputs, outputs, pef = traced
    made = samba.session.report()
    page = Page(made.html)
    for tag, attributes in page.elements:  # nothing from elsewhere
        assert tag not in ("link", "iframe", "img", "object") and not {"src", "href"} & set(attributes)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", made.html)
    numbers = page.numbers
    assert (
        numbers["name"] == numbers["graphs"][0]["name"] == HOSTILE.replace("/", "|") and numbers["pef"] == pef
    )  # as text, whatever it says
    assert [tag for tag, _ in page.elements].count("script") == 2 and "<img" not in made.html.replace("\\u003c", "")
    assert [s["type"] for s in numbers["sections"]] == ["FWD", "BCKWD", "OPT"]
    assert [(g["first"], g["count"], g["inference"], g["mapping"]) for g in numbers["graphs"]] == [(0, 3, False, "section")]
    assert numbers["graphs"][0]["flops"] == sum(s["flops"] for s in numbers["sections"])
    assert sum(s["count"] for s in numbers["sections"]) == len(numbers["stages"])
    for section in numbers["sections"]:
        stages = numbers["stages"][section["first"] : section["first"] + section["count"]]
        assert section["flops"] == sum(s["flops"] for s in stages) and section["bytes"] == sum(s["bytes"] for s in stages)
        assert section["roof"] == pytest.approx(sum(s["roof"] for s in stages), rel=1e-4) and "seconds" not in section
    roof = numbers["machine"]
    assert abs(roof["at"] - time.time()) < 86400 and 0 <= roof["others"] <= 1
    for stage in numbers["stages"]:
        least = max(stage["flops"] / roof["flops"], stage["bytes"] / roof["memory"])
        assert stage["roof"] == pytest.approx(least, rel=1e-4)
    lasting = numbers["live"]["lasting"]
    weights = 4 * (30 * 40 + 30 + 10 * 30 + 10)
    assert lasting["parameters"] == weights and weights <= lasting["gradients"] <= weights + 64
    assert weights <= lasting["optimizer state and buffers"] <= weights + 64
    live = numbers["live"]
    assert live["activations"][live["peak"]] == max(live["activations"]) >= 4 * 8 * 30  # the hidden values at least
    assert sum(lasting.values()) + max(live["activations"]) <= live["planned"]
    assert isinstance(made, report.Report) and made._repr_html_().startswith("<iframe srcdoc=") and pef in repr(made)
    frame = Page.__base__()  # the frame's attribute holds the page, whole
    frame.handle_starttag = lambda tag, attrs: setattr(frame, "found", dict(attrs)["srcdoc"])
    frame.feed(made._repr_html_())
    assert frame.found == made.html


def test_measured(traced, tmp_path, monkeypatch):
    inputs, outputs, pef = traced
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "DETAILED")
    samba.session.start_runtime_profile(timer_enabled=False)
    for _ in range(5):
        samba.session.run(inputs, outputs)
    samba.session.end_runtime_profile(tmp_path / "p.html")
    numbers = Page((tmp_path / "p.html").read_text()).numbers
    timeline = json.loads((tmp_path / "p.json").read_text())
    events = [e for e in timeline["traceEvents"] if e["ph"] == "X"]
    for i, stage in enumerate(numbers["stages"]):
        times = [e["dur"] / 1e6 for e in events if e["args"].get("stage") == i]
        assert stage["runs"] == len(times) == 5 and stage["seconds"] == pytest.approx(sum(times) / 5, rel=1e-3)
        assert stage["least"] == pytest.approx(min(times), rel=1e-3) and stage["greatest"] == pytest.approx(max(times), rel=1e-3)
        assert stage["bound"] in ("compute", "memory", "cache") and stage["share"] > 0
    log = (tmp_path / "p.log").read_text()
    assert str(report.machine(runtime.lib.samba_session_threads(samba.session.loaded().c))) in log
    assert re.search(r"^0 FWD .* \d+ % (compute|memory|cache)$", log, re.M) and "cumulative" in log
    program = shutil.which("sambaflow")
    if program:  # the same times by the command
        made = subprocess.run(
            [program, "report", pef, "-o", tmp_path / "c.html", "--profile", tmp_path / "p.json"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert made.stdout.strip() == str(tmp_path / "c.html")
        again = Page((tmp_path / "c.html").read_text()).numbers
        for one, other in zip(numbers["sections"] + numbers["stages"], again["sections"] + again["stages"]):
            assert other["runs"] == one["runs"] and other["seconds"] == pytest.approx(one["seconds"], rel=1e-3)


def test_refused(traced):
    with pytest.raises(ValueError, match="0 threads, expected 1 to 4096"):
        report.machine(0)
    samba.session.reset()
    with pytest.raises(RuntimeError, match="no PEF is loaded"):
        samba.session.report()


def browse(page, folder, size=(1280, 800)):
    """The document as a browser makes it of a page in a window of that size; skips where there is no browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no chromium here")
    file = folder / "shown.html"
    file.write_text(page, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        f"--user-data-dir={folder / 'browser'}",
        f"--window-size={size[0]},{size[1]}",
    ]
    return subprocess.run([browser, *flags, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120).stdout


# Pairs of labels of a chart of which one covers the other, labels that leave their chart,
# and parts that are wider than the window.
LOOK = """<script>
const found = [];
for (const svg of document.querySelectorAll("svg")) {
  const frame = svg.getBoundingClientRect(), labels = [...svg.querySelectorAll("text")].map(x => [x.textContent, x.getBoundingClientRect()]);
  labels.forEach(([text, a], i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1) found.push(text + " leaves its chart");
    for (const [other, b] of labels.slice(i + 1))
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) found.push(text + " and " + other);
  });
}
for (const part of [document.documentElement, ...document.querySelectorAll(".facts div, #sections")])
  if (part.scrollWidth > part.clientWidth + 1 || part.getBoundingClientRect().right > innerWidth + 1) found.push(part.tagName + part.id + " is too wide");
const told = document.createElement("pre");
told.id = "found";
told.textContent = [innerWidth, document.querySelectorAll("svg text").length, ...found].join("\\n");
document.body.prepend(told);
</script></body>"""  # noqa: E501


CACHES = 1.1, 1.5, 3, 5, 7, 12, 40  # times as fast as memory


@pytest.mark.parametrize("large, width, height", [(False, 800, 600), (True, 800, 600), (True, 1280, 800)])
def test_labels_do_not_overlap(traced, tmp_path, monkeypatch, large, width, height):
    inputs, outputs, _ = traced
    if large:
        samba.session.reset()
        model = samba.from_torch_model_(
            torch.nn.TransformerEncoder(
                torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 8, enable_nested_tensor=False
            )
        )
        inputs, optim = (samba.randn(2, 16, 64, name="x"),), samba.optim.AdamW(model.parameters(), lr=0.01)
        outputs = utils.trace_graph(
            model, inputs, optim, pef=samba.session.compile(model, inputs, optim, output_folder=str(tmp_path), pef_name="large")
        )
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "DETAILED")
    samba.session.start_runtime_profile(timer_enabled=False)
    samba.session.run(inputs, outputs)
    samba.session.end_runtime_profile(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8").replace("</body>", LOOK)
    memory = float(re.search(r'"memory": ([\d.e+]+)', page).group(1))
    for cache in CACHES:
        shown = browse(re.sub(r'"cache": [\d.e+]+', f'"cache": {cache * memory}', page, count=1), tmp_path, (width, height))
        window, labels, *found = re.search(r'<pre id="found">([^<]*)</pre>', shown).group(1).split("\n")
        assert int(window) == width and int(labels) > 20 and not found, (cache, found)


def test_in_a_browser(traced, tmp_path):
    """What the page's script draws, where there is a browser."""
    page = samba.session.report().html
    shown = browse(page, tmp_path)
    numbers = Page(page).numbers
    body = shown[: shown.index('<script id="numbers"')]
    assert body.count("<tr>") == 2 + len(numbers["sections"]) + len(numbers["stages"])
    assert body.count("<circle") == sum(s["flops"] > 0 and s["bytes"] > 0 for s in numbers["stages"])
    assert "<img" not in body and "onerror=alert(1)&gt;" in body
    assert f"at stage {numbers['live']['peak']}</text>" in body


def test_slowest_and_over_in_a_browser(traced, tmp_path, monkeypatch):
    """The three slowest stages stand first; a share above 100 % is marked and explained; cards stand in even rows."""
    inputs, outputs, _ = traced
    monkeypatch.setenv("ENABLE_RUNTIME_PERF", "DETAILED")
    samba.session.start_runtime_profile(timer_enabled=False)
    samba.session.run(inputs, outputs)
    samba.session.end_runtime_profile(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    numbers = Page(page).numbers
    slowest = sorted((s["seconds"] for s in numbers["stages"]), reverse=True)[:3]
    page = re.sub(r'"share": [\d.e-]+', '"share": 1.25', page)  # all of them
    look = """<script>
    const seen = [...document.querySelectorAll("#slowest tbody tr")].map(tr => tr.children[0].firstChild.textContent);
    const told = document.createElement("pre");
    told.id = "found";
    told.textContent = seen.join(" ") + "\\n" + document.getElementById("facts").style.gridTemplateColumns + "\\n"
      + document.getElementById("facts").children.length;
    document.body.prepend(told);
    </script></body>"""
    shown = browse(page.replace("</body>", look), tmp_path)
    places, columns, cards = re.search(r'<pre id="found">([^<]*)</pre>', shown).group(1).split("\n")
    assert [numbers["stages"][int(place)]["seconds"] for place in places.split()] == slowest
    columns, cards = int(re.search(r"repeat\((\d+)", columns).group(1)), int(cards)
    rows = -(-cards // columns)
    assert columns * rows - cards < rows  # rows differ by one card at most, or the last lacks as few as there are rows
    assert shown.count("<sup ") >= 3 + len(numbers["stages"]) and shown.count("* More than 100 %") == 2


def test_a_timeline_for_each_graph(tmp_path):
    """Two graphs in one PEF: each has a timeline of its own, with its own sections."""
    net = torch.nn.Linear(6, 4)
    answer = samba.from_torch_model_(net)
    x = samba.randn(3, 6, name="x")
    other = samba.from_torch_model_(torch.nn.Sequential(net, torch.nn.Tanh()))
    for graph in (FwdGraph(answer, (x,), "plain"), FwdGraph(other, (x,), "bounded")):
        samba.session.add_graph(graph)
    pef = samba.session.compile_multigraph("several", output_folder=str(tmp_path), pef_name="several")
    samba.session.init_multigraph_runtime(pef)
    page = samba.session.report().html
    graphs = Page(page).numbers["graphs"]
    assert [graph["name"] for graph in graphs] == ["plain", "bounded"]
    shown = browse(page, tmp_path)
    body = shown[: shown.index('<script id="numbers"')]
    for place, graph in zip(("timeline", "timeline1"), graphs):
        drawn = body.index(f'id="{place}"')
        assert f"<h3>{graph['name']}" in body[:drawn] and "<rect" in body[drawn:]
