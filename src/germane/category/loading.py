"""Files and tables -> links of a content graph.

In: pairs, tables, CSV, Parquet, Arrow, SKOS, WordNet. Out: two lists of names, parents and
children; and nodes that stand alone. Nothing is trusted: what is no pair of names is refused with
its place.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from germane.model import InvalidValue
from germane.model.wordnet import read_synsets

MAX_BYTES = 1 << 32
Pairs = tuple[list[str], list[str]]
_TABLES = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}
_SKOS = {
    ".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".nt": "nt", ".n3": "n3", ".jsonld": "json-ld",
}  # fmt: skip
_WORDNET = re.compile(r"data\.(noun|verb)")


def columns_of(edges: Any) -> Pairs:
    """Parents and children out of pairs, a table, or two lists that were made here."""
    if type(edges) is _Columns:
        return edges
    if hasattr(edges, "to_arrow"):  # polars, Spark, our own
        edges = edges.to_arrow()
    if hasattr(edges, "__arrow_c_stream__") or hasattr(edges, "column_names"):
        import pyarrow as pa

        return _of_table(pa.table(edges), {})
    if isinstance(edges, str | bytes | Mapping) or not isinstance(edges, Iterable):
        raise InvalidValue(f"edges are (parent, child) pairs, not {edges!r:.200}")
    parents: list[str] = []
    children: list[str] = []
    for i, edge in enumerate(edges):
        if isinstance(edge, str | bytes) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise InvalidValue(f"edge {i} is not a (parent, child) pair but {edge!r:.200}")
        parents.append(edge[0])
        children.append(edge[1])
    return parents, children


class _Columns(tuple[list[str], list[str]]):
    """Parents and children, read from a file."""


def read_file(path: Path, columns: Mapping[str, str]) -> tuple[Any, list[str]]:
    """Links and nodes of a file, by its name."""
    for name in columns:
        if name not in ("parent", "child"):
            raise InvalidValue(f"the columns of a graph are parent= and child=, not {name}=")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from error
    if size > MAX_BYTES:
        raise InvalidValue(f"{path} has {size:,} bytes; a graph's file has at most {MAX_BYTES:,}")
    if _WORDNET.fullmatch(path.name):
        return _wordnet(path)
    kind = path.suffix.lower()
    if kind == ".csv":
        return _csv(path, columns), []
    if kind in _TABLES:
        import pyarrow as pa
        import pyarrow.dataset as ds

        try:
            table = ds.dataset(path, format=_TABLES[kind]).to_table()
        except (pa.ArrowException, OSError) as error:
            raise InvalidValue(f"{path.name} is no {kind[1:]} file: {error}") from error
        return _Columns(_of_table(table, columns)), []
    if kind in _SKOS:
        return _skos(path, _SKOS[kind])
    known = ", ".join((".csv", *_TABLES, *_SKOS))
    raise InvalidValue(f"cannot tell what {path.name!r} is: known are {known}, and data.noun")


def _of_table(table: Any, columns: Mapping[str, str]) -> Pairs:
    names = table.column_names
    if len(names) < 2:
        raise InvalidValue(f"a table of edges has two columns or more; this has {len(names)}")
    chosen = (columns.get("parent", names[0]), columns.get("child", names[1]))
    for name in chosen:
        if name not in names:
            raise InvalidValue(f"the table has no column {name!r}; it has {', '.join(names)}")
    parents, children = (table.column(name).cast("string").to_pylist() for name in chosen)
    return parents, children


def _csv(path: Path, columns: Mapping[str, str]) -> _Columns:
    """Two columns with a header."""
    parents: list[str] = []
    children: list[str] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, [])
            if len(header) < 2:
                raise InvalidValue(f"{path.name} needs a header with two columns or more")
            wanted = (columns.get("parent", header[0]), columns.get("child", header[1]))
            for name in wanted:
                if name not in header:
                    raise InvalidValue(f"{path.name} has no column {name!r}: {', '.join(header)}")
            a, b = (header.index(name) for name in wanted)
            for row in reader:
                if not row:
                    continue
                if len(row) <= max(a, b):
                    raise InvalidValue(f"{path.name}, line {reader.line_num}: {row!r:.200}")
                parents.append(row[a])
                children.append(row[b])
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidValue(f"{path.name}, line {reader.line_num}: {error}") from error
    return _Columns((parents, children))


def _skos(path: Path, form: str) -> tuple[_Columns, list[str]]:
    """Concepts by their preferred labels (or addresses), links by broader and narrower."""
    try:
        import rdflib
        from rdflib.namespace import RDF, SKOS
    except ImportError as error:
        raise InvalidValue("SKOS needs rdflib: pip install germane[skos]") from error
    found = rdflib.Graph()
    try:
        found.parse(str(path), format=form)
    except Exception as error:  # each of its parsers has errors of its own
        raise InvalidValue(f"{path.name} is no {form}: {error}") from error
    links = [(b, a) for a, b in found.subject_objects(SKOS.broader)]
    links += list(found.subject_objects(SKOS.narrower))
    concepts = {*found.subjects(RDF.type, SKOS.Concept), *(x for link in links for x in link)}
    labels = _labels(found, sorted(concepts, key=str), SKOS.prefLabel)
    parents, children = [labels[a] for a, _ in links], [labels[b] for _, b in links]
    return _Columns((parents, children)), sorted(labels.values())


def _labels(found: Any, concepts: list[Any], predicate: Any) -> dict[Any, str]:
    """A name for each concept: its label, English first, unless another has it too."""
    named: dict[Any, str] = {}
    for concept in concepts:
        texts = sorted(
            found.objects(concept, predicate),
            key=lambda text: (text.language != "en", text.language is not None, str(text)),
        )
        named[concept] = str(texts[0]) if texts else str(concept)
    times: dict[str, int] = {}
    for name in named.values():
        times[name] = times.get(name, 0) + 1
    return {c: name if times[name] == 1 else str(c) for c, name in named.items()}


def _wordnet(path: Path) -> tuple[_Columns, list[str]]:
    """WordNet's ``data.noun``: a node a synset, named by its words; links are hypernyms.

    The first word names a synset, as in "dog"; where it is taken, "dog (2)" and so on in the order
    of the file, as WordNet numbers nothing in there itself.
    """
    names: dict[str, str] = {}
    taken: dict[str, int] = {}
    links: list[tuple[str, str]] = []
    for offset, words, above in read_synsets(path):
        links += [(parent, offset) for parent in above]
        times = taken[words[0]] = taken.get(words[0], 0) + 1
        names[offset] = words[0] if times == 1 else f"{words[0]} ({times})"
    missing = next((a for a, _ in links if a not in names), None)
    if missing is not None:
        raise InvalidValue(f"{path.name} has no synset {missing}, which others name")
    parents, children = [names[a] for a, _ in links], [names[b] for _, b in links]
    return _Columns((parents, children)), list(names.values())
