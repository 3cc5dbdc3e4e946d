"""HTML for notebooks: counted, escaped, keys behind a click."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from barca.render import html as rendered
from barca.render.html import project_html

NO_GRAPH = {"nodes": [], "edges": []}

VOID: set[str] = set()


class Strict(HTMLParser):
    """Fails on tags that do not nest; collects text and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parse(html: str) -> Strict:
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def plan_html(plan, outline=NO_GRAPH):
    return rendered.plan_html(plan, outline)


def result_html(result, outline=NO_GRAPH):
    return rendered.result_html(result, outline)


def status_html(status, outline=NO_GRAPH):
    return rendered.status_html(status, outline)


@pytest.mark.parametrize(
    ("render", "name"),
    [
        (plan_html, "dry_run"), (result_html, "result"), (result_html, "keys"), (result_html, "failed"),
        (result_html, "whole"), (result_html, "several"), (status_html, "status"),
    ],
)  # fmt: skip
def test_html(sample, snapshot, render, name):
    html = render(sample(name))
    parsed = parse(html)
    assert parsed.tags <= {
        "div", "strong", "table", "thead", "tbody", "tr", "th", "td", "span", "details", "summary", "ul", "li",
    }  # fmt: skip
    assert "\x1b" not in html and "\u202e" not in html
    assert html.replace("><", ">\n<") == snapshot


def test_keys_are_behind_a_click_and_escaped(sample):
    html = plan_html(sample("dry_run"))
    assert "<summary>1 key</summary>" in html
    assert "the first 20 of 68,509 keys" in html
    assert "[red]r\\x1b[31m&lt;b&gt;7&lt;/b&gt;\\u202e" in html
    assert "<b>" not in html


def test_status_counts_by_state_and_reason(sample):
    text = parse(status_html(sample("status"))).text
    assert "2 stale" in text and "1 never run" in text
    assert "nodes by reason: " in text and "an input failed (1)" in text


def test_markup_in_every_field_is_escaped():
    evil = "<script>alert(1)</script>"
    step = {"id": evil, "kind": "asset", "action": "run", "status": "ran", "reason": evil, "detail": evil}
    plan = {"steps": [step], "summary": {evil: 1}}
    result = {
        "status": evil, "run_id": evil, "steps": [step], "error": evil, "failed_node": evil, "warnings": [evil],
        "targets": {evil: {evil: {"_barca_artifact": {"path": evil}}}},
    }  # fmt: skip
    node = {"id": evil, "cache": {"state": evil, "reason": evil, "detail": evil}, "partitions": None}
    status = {"nodes": [node], "summary": {evil: 1}}
    for html in (plan_html(plan), result_html(result), status_html(status)):
        assert "<script" not in html
        parse(html)


def test_the_graph_is_drawn_in_the_colours_of_its_states(sample):
    status = sample("status")
    names = [node["id"] for node in status["nodes"]]
    outline = {
        "nodes": [{"id": name, "name": name, "kind": "asset", "partitions": []} for name in names],
        "edges": [{"source": names[0], "target": names[1], "mode": "whole"}],
    }
    html = status_html(status, outline)
    assert parse(html).tags >= {"svg", "rect", "path"}
    assert html.count("<rect") == len(names) and 'stroke="#9a6700"' in html
    assert "<details open><summary>graph" in html
    result = sample("result")
    ran = {"nodes": [{**outline["nodes"][0], "id": step["id"]} for step in result["steps"]], "edges": []}
    assert "<rect" in result_html(result, ran) and 'stroke="#1a7f37"' in result_html(result, ran)
    many = {"nodes": [{**outline["nodes"][0], "id": str(number)} for number in range(100)], "edges": []}
    assert "<details><summary>graph" in plan_html(sample("dry_run"), many)


def test_a_project(sample):
    listed = {"total": 1, "load_errors": [{"file": "<b>.py", "error": "SyntaxError: <"}], "nodes": []}
    node = {"id": "p.py:a", "name": "a", "kind": "sensor", "partitions": []}
    html = project_html(listed, {"nodes": [node], "edges": []})
    assert "1 file that does not load" in html and "&lt;b&gt;.py: SyntaxError: &lt;" in html
    assert parse(html).tags >= {"svg"}


def test_reasons_are_counted_by_keys_with_short_names():
    groups = [
        {"reason": "not_materialized", "changed": ["value notebook:sold"], "keys": 140},
        {"reason": "not_materialized", "changed": None, "keys": 2},
    ]
    steps = [
        {
            "id": "a.ipynb:weekly",
            "action": "partial",
            "reason": "not_materialized",
            "partitions": {"reasons": groups},
        },
        {
            "id": "a.ipynb:total",
            "action": "run",
            "reason": "not_materialized",
            "changed": ["input a.ipynb:weekly", "helper <session>:scan"],
        },
    ]
    html = plan_html({"steps": steps, "summary": {}})
    assert (
        "keys by reason: value sold changed (140), no result yet (2), input weekly, helper scan changed (1)"
        in html
    )
