"""Content graphs from files."""

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from germane import ContentGraph, InvalidValue

LINKS = [("Sports", "Baseball"), ("Baseball", "Red Sox"), ("Sports", "Tennis, lawn")]
TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://example.org/> .
ex:sports a skos:Concept ; skos:prefLabel "Sports"@en, "Sport"@de .
ex:baseball a skos:Concept ; skos:prefLabel "Baseball"@en ; skos:broader ex:sports .
ex:sox a skos:Concept ; skos:broader ex:baseball .
ex:tennis a skos:Concept ; skos:prefLabel "Tennis" .
ex:sports skos:narrower ex:tennis .
ex:lonely a skos:Concept ; skos:prefLabel "Same" .
ex:alone a skos:Concept ; skos:prefLabel "Same" .
"""
WORDNET = """\
  1 This line is part of the licence and is not a synset.
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is
00001930 03 n 02 physical_entity 0 thing 0 002 @ 00001740 n 0000 ~ 00002137 n 0000 | of matter
00002137 03 n 01 entity 1 002 @ 00001930 n 0000 + 00001234 v 0101 | another of that name
00002452 03 n 01 thing 0 001 @i 00001930 n 0000 | an instance
"""


@pytest.fixture
def table():
    parents, children = zip(*LINKS, strict=True)
    return pa.table({"parent": parents, "child": children, "note": ["x"] * 3})


def same(graph):
    assert sorted(graph.edges()) == sorted(LINKS)


def test_tables(table, tmp_path):
    pq.write_table(table, tmp_path / "g.parquet")
    feather.write_feather(table, tmp_path / "g.arrow")
    same(ContentGraph.read(tmp_path / "g.parquet"))
    same(ContentGraph.read(tmp_path / "g.arrow"))
    same(ContentGraph.from_edges(table))
    same(ContentGraph.from_edges(table.to_pandas()))
    turned = ContentGraph.read(tmp_path / "g.parquet", parent="child", child="parent")
    assert turned.covers("Red Sox", "Sports")
    with pytest.raises(InvalidValue, match="no column 'x'; it has parent, child, note"):
        ContentGraph.read(tmp_path / "g.parquet", parent="x")
    with pytest.raises(InvalidValue, match="parent= and child=, not mother="):
        ContentGraph.read(tmp_path / "g.parquet", mother="x")


def test_csv(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text('parent,child\nSports,Baseball\nBaseball,Red Sox\nSports,"Tennis, lawn"\n\n')
    same(ContentGraph.read(path))
    path.write_text("parent,child\nSports\n")
    with pytest.raises(InvalidValue, match="line 2"):
        ContentGraph.read(path)
    path.write_text("parent\nSports\n")
    with pytest.raises(InvalidValue, match="two columns"):
        ContentGraph.read(path)
    path.write_bytes(b"parent,child\nSports,\xff\n")
    with pytest.raises(InvalidValue, match="utf-8"):
        ContentGraph.read(path)
    path.write_text("parent,child\nSports,\n")
    with pytest.raises(InvalidValue, match="non-empty"):
        ContentGraph.read(path)


def test_skos(tmp_path):
    pytest.importorskip("rdflib")
    path = tmp_path / "g.ttl"
    path.write_text(TURTLE)
    graph = ContentGraph.read(path)
    assert graph.descendants("Sports") == [
        "Baseball", "Sports", "Tennis", "http://example.org/sox",
    ]  # fmt: skip
    assert "Same" not in graph
    assert "http://example.org/alone" in graph
    path.write_text("this is no turtle")
    with pytest.raises(InvalidValue, match="is no turtle"):
        ContentGraph.read(path)


def test_wordnet(tmp_path):
    path = tmp_path / "data.noun"
    path.write_text(WORDNET)
    graph = ContentGraph.read(path)
    assert graph.ancestors("entity (2)") == ["entity", "entity (2)", "physical entity"]
    assert graph.descendants("physical entity") == ["entity (2)", "physical entity", "thing"]
    path.write_text("00001740 03 n zz entity\n")
    with pytest.raises(InvalidValue, match="line 1 is no synset"):
        ContentGraph.read(path)
    path.write_text("00002137 03 n 01 entity 1 001 @ 00009999 n 0000 | its parent is missing\n")
    with pytest.raises(InvalidValue, match="no synset 00009999"):
        ContentGraph.read(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InvalidValue, match="cannot read"):
        ContentGraph.read(tmp_path / "nowhere.csv")
    (tmp_path / "g.parquet").write_text("x")
    with pytest.raises(InvalidValue, match="no parquet file"):
        ContentGraph.read(tmp_path / "g.parquet")
    (tmp_path / "g.doc").write_text("x")
    with pytest.raises(InvalidValue, match=r"cannot tell what 'g\.doc' is"):
        ContentGraph.read(tmp_path / "g.doc")
