"""The conformance suite of CESQL 1.0: every case, by the evaluator and through `Filter`."""

import json
import re
from pathlib import Path

import pytest
import yaml

import germane
from germane.language.cesql import evaluate, parse
from germane.language.cesql.grammar import CesqlError

FOLDER = Path(__file__).parent / "cesql_tck"
EVENT = {"specversion": "1.0", "id": "myId", "source": "localhost.localdomain", "type": "myType"}


class Texts(yaml.SafeLoader):
    """YAML whose timestamps stay the strings that JSON would have."""


Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def cases():
    for path in sorted(FOLDER.glob("*.yaml")):
        for number, case in enumerate(yaml.load(path.read_text(), Texts)["tests"]):
            yield pytest.param(case, id=f"{path.stem}-{number}-{case['name']}")


CASES = list(cases())


def event_of(case):
    return case["event"] if "event" in case else EVENT | case.get("eventOverrides", {})


def test_the_suite_is_whole():
    assert len(list(FOLDER.glob("*.yaml"))) == 18
    assert len(CASES) == 275


@pytest.mark.parametrize("case", CASES)
def test_value_and_error(case):
    text = str(case["expression"])
    if case.get("error") in ("parse", "missingFunction"):
        with pytest.raises(CesqlError) as refused:
            parse(text)
        assert refused.value.kind == case["error"]
        return
    value, error = evaluate(parse(text), event_of(case))
    assert error == case.get("error")
    wanted = case["result"]
    assert (type(value), value) == (type(wanted), wanted)


@pytest.mark.parametrize("case", CASES)
def test_through_the_filter(case):
    """An event passes if the result is TRUE, a boolean, without an error."""
    f = germane.Filter()
    text = str(case["expression"])
    if case.get("error") in ("parse", "missingFunction"):
        with pytest.raises(germane.ConditionError):
            f.subscribe("p", text, dialect="cesql")
        return
    f.subscribe("p", text, dialect="cesql")
    passes = case["result"] is True and "error" not in case
    assert f.match(event_of(case)) == ["p"] * passes
    assert f.explain("p", event_of(case)).matched is passes


def filters_of(text):
    """The filter of the Subscriptions API that a case recreates, if it recreates a single one."""
    if found := re.fullmatch(r"(\w+) = '([^']*)'", text):
        return [{"exact": {found[1]: found[2]}}]
    if found := re.fullmatch(r"(\w+) like '([^'%]+)%'", text, re.IGNORECASE):
        return [{"prefix": {found[1]: found[2]}}]
    if found := re.fullmatch(r"(\w+) like '%([^'%]+)'", text, re.IGNORECASE):
        return [{"suffix": {found[1]: found[2]}}]
    return None


RECREATED = [
    pytest.param(case.values[0], id=case.id)
    for case in CASES
    if case.id.startswith("subscriptions") and filters_of(case.values[0]["expression"])
]


@pytest.mark.parametrize("case", RECREATED)
def test_filters_that_the_suite_recreates(case):
    f = germane.Filter()
    filters = filters_of(case["expression"])
    f.subscribe("p", json.dumps(filters), dialect="filters")
    f.subscribe("not p", json.dumps([{"not": filters[0]}]), dialect="filters")
    assert f.match(event_of(case)) == (["p"] if case["result"] else ["not p"])


def test_the_suite_recreates_all_kinds():
    assert len(RECREATED) == 12
