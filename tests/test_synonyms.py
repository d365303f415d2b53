"""Tables of renamings out of WordNet."""

import pytest

from germane import InvalidValue
from germane.approx import synonyms as module
from germane.approx.synonyms import as_yaml, normal, synonyms
from germane.approx.transformations import Transformations
from germane.model import wordnet

NOUNS = """\
  1 This software and database is being provided to you, the LICENSEE, by
00000100 06 n 01 seat 0 002 ~ 00000200 n 0000 ~ 00000300 n 0000 | furniture for sitting
00000200 06 n 03 Sofa 0 couch 0 lounge 0 002 @ 00000100 n 0000 ~ 00000400 n 0000 | upholstered
00000300 06 n 02 arm-chair 0 easy_chair 1 002 @ 00000100 n 0000 + 00000100 v 0101 | with arms
00000400 06 n 02 love_seat 0 vis-a-vis 0 001 @ 00000200 n 0000 | for two
00000500 06 n 02 lounge 1 waiting_room 0 000 | a room
00000600 18 n 01 Vis-a-Vis 1 001 @i 00000500 n 0000 | one of them, by name
"""
INDEX = """\
  1 This software and database is being provided to you, the LICENSEE, by
lounge n 2 2 @ ~ 2 1 00000500 00000200
couch n 1 2 @ ~ 1 1 00000500
"""
VERBS = """\
00000100 38 v 02 Lounge 0 laze 0 001 ~ 00000200 v 0000 02 + 01 00 + 02 00 | be idle
00000200 38 v 02 slouch 0 no 0 001 @ 00000100 v 0000 01 + 01 00 | idle badly
"""
ADJECTIVES = """\
00000100 00 a 02 plush 0 galore(ip) 0 001 & 00000200 a 0000 | rich
00000200 00 s 02 Lavish 0 plush 1 001 & 00000100 a 0000 | very rich
"""


@pytest.fixture
def nouns(tmp_path):
    path = tmp_path / "data.noun"
    path.write_text(NOUNS.replace("\n", "  \n"), encoding="utf-8")  # as WordNet ends its lines
    return path


def of(pairs, word):
    return {target: cost for (source, target), cost in pairs.items() if source == word}


def test_costs_are_by_distance(nouns):
    found = of(synonyms([nouns], distance=0), "couch")
    assert found == {"sofa": 1.0, "lounge": 1.0}
    found = synonyms([nouns], cost=2, step=0.5, distance=1)
    assert of(found, "couch") == {
        "sofa": 2.0, "lounge": 2.0, "seat": 2.5, "love seat": 2.5, "vis a vis": 2.5,
    }  # fmt: skip
    assert of(found, "seat") == {
        "sofa": 2.5, "couch": 2.5, "lounge": 2.5, "arm chair": 2.5, "easy chair": 2.5,
    }  # fmt: skip
    assert of(synonyms([nouns], distance=2), "couch")["easy chair"] == 3.0
    assert of(synonyms([nouns], distance=3), "love seat")["arm chair"] == 4.0


def test_the_least_cost_of_several_senses(nouns):
    found = synonyms([nouns], distance=3)
    # "vis-a-vis" and "Vis-a-Vis" are one word: a love seat, and a place
    assert of(found, "vis a vis")["love seat"] == 1.0
    assert of(found, "vis a vis")["waiting room"] == 2.0
    assert of(found, "vis a vis")["lounge"] == 2.0
    assert ("vis a vis", "vis a vis") not in found


def test_limit_takes_the_cheapest_and_the_usual_senses(nouns):
    (limited,) = synonyms([nouns], ["lounge"], limit=1)
    assert limited == ("lounge", "sofa")  # the first of the file
    assert list(of(synonyms([nouns], limit=4), "couch")) == ["sofa", "lounge", "seat", "love seat"]
    nouns.with_name("index.noun").write_text(INDEX.replace("\n", "  \n"), encoding="utf-8")
    found = synonyms([nouns], limit=2, distance=0)
    assert list(of(found, "lounge")) == ["waiting room", "sofa"]
    assert list(of(found, "couch")) == ["sofa", "lounge"]  # an index adds no sense
    nouns.with_name("index.noun").write_text("lounge n two\n", encoding="utf-8")
    with pytest.raises(InvalidValue, match=r"index\.noun, line 1 is no word of WordNet"):
        synonyms([nouns])


def test_words_and_several_files(nouns, tmp_path):
    verbs, adjectives = tmp_path / "data.verb", tmp_path / "data.adj"
    verbs.write_text(VERBS, encoding="utf-8")
    adjectives.write_text(ADJECTIVES, encoding="utf-8")
    found = synonyms([nouns, str(verbs), adjectives], ["LOUNGE", "love_seat", "no such"])
    assert {source for source, _ in found} == {"lounge", "love seat"}
    assert {"sofa", "waiting room", "laze", "slouch"} <= set(of(found, "lounge"))
    assert of(synonyms(adjectives), "plush") == {"galore": 1.0, "lavish": 1.0}
    assert synonyms([nouns], []) == {}


def test_every_pair_is_within_reach(nouns):
    """Against distances by all paths, at every distance and limit."""
    synsets = list(wordnet.read_synsets(nouns))
    links = {frozenset((s.offset, parent)) for s in synsets for parent in s.parents}
    away = {(s.offset, s.offset): 0 for s in synsets}
    for n in range(1, len(synsets)):
        for a, b in list(away):
            for c in synsets:
                if frozenset((b, c.offset)) in links:
                    away.setdefault((a, c.offset), n)
    for distance in range(4):
        expected = {}
        for a in synsets:
            for b in synsets:
                n = away.get((a.offset, b.offset), 99)
                for pair in ((normal(x), normal(y)) for x in a.words for y in b.words):
                    if n <= distance and pair[0] != pair[1]:
                        expected[pair] = min(expected.get(pair, 99), 1.0 + n)
        assert synonyms([nouns], distance=distance, limit=1000) == expected
        for limit in (1, 2, 3):
            found = synonyms([nouns], distance=distance, limit=limit)
            for word in {source for source, _ in expected}:
                costs = sorted(of(expected, word).values())[:limit]
                assert list(of(found, word).values()) == costs


def test_tables_are_read_again(tmp_path, nouns):
    pytest.importorskip("yaml")
    verbs, path = tmp_path / "data.verb", tmp_path / "table.yaml"
    verbs.write_text(VERBS, encoding="utf-8")  # with "no", which YAML takes for a truth value
    for cost in (1, 1e-07, 1e16, 0):
        pairs = synonyms([nouns, verbs], cost=cost)
        path.write_text("".join(as_yaml(pairs)), encoding="utf-8")
        read = Transformations.read(path)
        assert read == Transformations(rename_value=pairs)
        assert [((a, b), cost) for a, b, cost in read.as_dict()["rename_value"]] == [*pairs.items()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no synset; is it data.noun"),
        ("dear diary,\n", "line 1 is no synset of WordNet: 'dear diary,'; synsets are in data"),
        (NOUNS + "00000700 06 n 01 stool\n", "data.noun, line 8 is no synset"),
        ("00000100 06 n 00 000 | no words\n", "line 1 is no synset"),
        ("00000100 06 n -1 a 0 000 | less than none\n", "line 1 is no synset"),
        ("00000100 06 n 01 a 0 999 @ 00000100 n 0000 | few links\n", "line 1 is no synset"),
        ("00000100 06 x 01 a 0 000 | of no kind\n", "line 1 is no synset"),
        (INDEX, "line 2 is no synset"),
        (NOUNS + "00000100 06 n 01 stool 0 000 | again\n", "synset 00000100 twice"),
        ("00000100 06 n 01 a 0 001 @ 00000900 n 0000 |\n", "no synset 00000900, which others"),
        ("00000100 06 n 01 a 0 000 | " + "x" * 100_000, "line 1 has more than 100,000 characters"),
    ],
)
def test_what_is_not_wordnet(nouns, text, message):
    nouns.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue, match=message):
        synonyms([nouns])


def test_files_that_cannot_be_read(nouns, tmp_path):
    with pytest.raises(InvalidValue, match=r"cannot read .*nowhere: No such file"):
        synonyms([tmp_path / "nowhere"])
    nouns.write_bytes(b"  1 \n00000100 06 n 01 \xff 0 000 |\n")
    with pytest.raises(InvalidValue, match="is no text after line"):
        synonyms([nouns])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": -1}, "cost is a number of 0 or more, not -1"),
        ({"step": float("nan")}, "step is a number of 0 or more, not nan"),
        ({"cost": "1"}, "cost is a number of 0 or more, not '1'"),
        ({"distance": 11}, "distance is a whole number from 0 to 10, not 11"),
        ({"distance": 1.0}, "distance is a whole number"),
        ({"limit": 0}, "limit is a whole number from 1 to 1,000, not 0"),
        ({"limit": True}, "limit is a whole number"),
        ({"words": "sofa"}, "words are a list of words, not the text 'sofa'"),
        ({"words": ["sofa", "--"]}, "there is no word in '--'"),
    ],
)
def test_options_that_make_no_sense(nouns, options, message):
    with pytest.raises(InvalidValue, match=message):
        synonyms([nouns], **options)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MAX_READ", 10, "data.noun has too much: more than 10 words and links"),
        ("MAX_STEPS", 10, "too many links to follow at distance 1; name the words"),
        ("MAX_ENTRIES", 10, "more than 10 pairs, which no table holds"),
    ],
)
def test_there_is_an_end(nouns, monkeypatch, name, value, message):
    monkeypatch.setattr(module, name, value)
    with pytest.raises(InvalidValue, match=message):
        synonyms([nouns])


# the command -------------------------------------------------------------------------------------


@pytest.fixture
def germane(monkeypatch, nouns):
    """Run the command in the folder of the nouns; gives exit code and stderr."""
    testing = pytest.importorskip("typer.testing")
    from germane.cli.app import app

    monkeypatch.chdir(nouns.parent)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments):
        result = testing.CliRunner().invoke(app, ["synonyms", *arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stderr

    return run


def test_command(germane, nouns):
    pytest.importorskip("yaml")
    code, err = germane("data.noun")
    assert (code, err) == (0, "36 pairs of 9 words in synonyms.yaml\n")
    read = Transformations.read(nouns.with_name("synonyms.yaml"))
    assert read == Transformations(rename_value=synonyms([nouns]))


def test_command_for_some_words(germane, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "words.txt").write_text("Love seat\n\nbicycle\n", encoding="utf-8")
    options = "--words words.txt --for couch --cost 3 --step 2 --distance 2 --limit 3".split()
    code, err = germane("data.noun", *options, "--out", "some.yaml")
    assert code == 0
    assert err == "6 pairs of 2 words in some.yaml\nwithout synonyms: bicycle\n"
    assert Transformations.read(tmp_path / "some.yaml").as_dict()["rename_value"] == [
        ["couch", "sofa", 3.0], ["couch", "lounge", 3.0], ["couch", "seat", 5.0],
        ["love seat", "vis a vis", 3.0], ["love seat", "sofa", 5.0], ["love seat", "couch", 5.0],
    ]  # fmt: skip


def test_command_overwrites_only_if_told(germane, tmp_path):
    table = tmp_path / "synonyms.yaml"
    table.write_text("mine", encoding="utf-8")
    code, err = germane("data.noun")
    assert code == 2
    assert "synonyms.yaml exists; replace it with --force" in err
    assert table.read_text(encoding="utf-8") == "mine"
    assert germane("data.noun", "--force")[0] == 0
    assert "rename_value" in table.read_text(encoding="utf-8")


def test_command_says_what_is_wrong(germane, tmp_path):
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    for arguments, message in (
        (["empty"], "line 1 is no synset"),
        (["data.noun", "--limit", "0"], "limit is a whole number"),
        (["data.noun", "--words", "empty"], "empty has no words; it has one a line"),
        (["data.noun", "--words", "latin"], "latin is no text in UTF-8"),
        (["data.noun", "--for", "bicycle"], "no synonyms for these words; nothing was written"),
        (["data.noun", "--out", "no/where.yaml"], "No such file"),
        (["missing"], "does not exist"),
    ):
        code, err = germane(*arguments)
        assert code == 2
        assert message in err
    assert not (tmp_path / "synonyms.yaml").exists()
