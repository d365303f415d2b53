"""Bundles of arrays: what a kernel reads by address is what its layout says."""

import ast
import inspect
import textwrap

import numpy as np
import pytest

from germane.kernels import match
from germane.kernels.bundle import Bundle
from germane.kernels.layout import Field

LAYOUT = (Field("keys", np.dtype(np.float64)), Field("code", np.dtype(np.int32), 2))
KEYS, CODE = np.zeros(3), np.zeros((2, 3), np.int32)


def test_a_bundle_of_what_its_layout_says():
    bundle = Bundle(LAYOUT, (KEYS, CODE))
    assert bundle.places.tolist() == [[KEYS.ctypes.data, 3, 3], [CODE.ctypes.data, 2, 3]]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ((KEYS.astype(np.float32), CODE), ["'keys'", "float64", "float32"]),
        ((KEYS.view(np.int64), CODE), ["'keys'", "float64", "int64"]),
        ((np.zeros(6)[::2], CODE), ["'keys'", "not in C order"]),
        ((KEYS, CODE.astype(np.int64)), ["'code'", "int32", "int64"]),
        ((KEYS, CODE[0]), ["'code'", "2-dimensional", "1-dimensional"]),
        ((KEYS, np.asfortranarray(CODE)), ["'code'", "not in C order"]),
    ],
    ids=["narrower", "same size", "stepped", "wider", "one dimension", "other order"],
)
def test_a_bundle_of_something_else(arrays, words):
    with pytest.raises(TypeError) as caught:
        Bundle(LAYOUT, arrays)
    for word in words:
        assert word in str(caught.value)


def test_a_bundle_of_too_few():
    with pytest.raises(ValueError, match="shorter"):
        Bundle(LAYOUT, (KEYS,))


def test_the_kernel_reads_by_its_layout():
    """Number, name, type and dimensions of each array in the source are those of the layout."""
    kernel = getattr(match.match_message, "py_func", match.match_message)
    tree = ast.parse(textwrap.dedent(inspect.getsource(kernel)))
    read = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            function, arguments = ast.unparse(node.value.func), node.value.args
            if function in ("array_at", "matrix_at"):
                dtype = eval(ast.unparse(arguments[2]), vars(match))
                n_dimensions = 1 if function == "array_at" else 2
                field = Field(ast.unparse(node.targets[0]), np.dtype(dtype), n_dimensions)
                read[ast.literal_eval(arguments[1])] = field
    assert tuple(read[number] for number in sorted(read)) == match.LAYOUT
    assert sorted(read) == list(range(len(match.LAYOUT)))
