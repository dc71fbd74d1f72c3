"""The matrix product in C: every number is one chain of fused multiply-adds, whatever the processor and the cut."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from revalued.native.library import load, why_missing

Matrix = NDArray[np.float32]
BITS = (128, 256, 512)  # of a vector: any processor, AVX2, AVX-512

pytestmark = pytest.mark.skipif(why_missing() is not None, reason="there is no compiler")


def product(bits: int, left: Matrix, right: Matrix, out: Matrix, forms: str = "NN", *, adds: bool = False) -> None:
    """Carry it out on matrices that may be parts of larger ones, or skip where this processor cannot."""
    rows, columns = out.shape
    inner = left.shape[1 if forms[0] == "N" else 0]
    operands: list[Any] = [part for x in (left, right) for part in (x.ctypes.data, x.strides[0] // 4)]
    done = load().revalued_product(
        bits, ord(forms[0]), ord(forms[1]), rows, columns, inner, *operands, adds, out.ctypes.data,
        out.strides[0] // 4,
    )  # fmt: skip
    if not done:
        pytest.skip("not for this processor")


def numbers(rows: int, columns: int, seed: int) -> Matrix:
    """Return a matrix that lies within a larger one, whose other numbers would be noticed."""
    larger = np.full((rows, columns + 5), np.nan, np.float32)
    larger[:, 2 : 2 + columns] = np.random.default_rng(seed).standard_normal((rows, columns), np.float32)
    return larger[:, 2 : 2 + columns]


def given(forms: str, rows: int, columns: int, inner: int) -> tuple[Matrix, Matrix]:
    left = numbers(rows, inner, 1) if forms[0] == "N" else numbers(inner, rows, 1)
    right = numbers(inner, columns, 2) if forms[1] == "N" else numbers(columns, inner, 2)
    return left, right


def plain(matrix: Matrix, form: str) -> Matrix:
    return matrix if form == "N" else matrix.T


@pytest.mark.parametrize("bits", BITS)
def test_by_hand(bits: int) -> None:
    left, right = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6, 7], [8, 9, 10]], np.float32)
    out = np.ones((2, 3), np.float32)
    product(bits, left, right, out)
    assert out.tolist() == [[21, 24, 27], [47, 54, 61]]
    product(bits, left, right, out, adds=True)
    assert out.tolist() == [[42, 48, 54], [94, 108, 122]]
    product(bits, left, right[:, :2], out[:, :2], "TT")  # [[1, 3], [2, 4]] · [[5, 8], [6, 9]]
    assert out[:, :2].tolist() == [[23, 35], [34, 52]]
    product(bits, left[:, :0], right[:0], out)
    assert not out.any()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("forms", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("adds", [False, True], ids=["new", "added"])
def test_every_form_and_every_remainder_of_a_tile(forms: str, adds: bool, bits: int) -> None:
    """Nothing beside the outcome is read or written: what is there is not a number."""
    for rows, columns, inner in [(1, 1, 1), (1, 300, 7), (2, 16, 300), (5, 31, 3), (7, 33, 20), (8, 32, 64),
                                 (17, 80, 257), (23, 47, 12), (41, 15, 5)]:  # fmt: skip
        left, right = given(forms, rows, columns, inner)
        out = numbers(rows, columns, 3)
        before = out.copy()
        product(bits, left, right, out, forms, adds=adds)
        exact = plain(left, forms[0]).astype(np.float64) @ plain(right, forms[1]).astype(np.float64)
        np.testing.assert_allclose(out, exact + before * adds, rtol=0, atol=2e-6 * (inner + 4))
        assert out.base is not None
        assert np.isnan(out.base[:, [0, 1, -3, -2, -1]]).all()


@pytest.mark.parametrize("bits", BITS[1:])
@pytest.mark.parametrize("forms", ["NN", "NT", "TN"])
def test_each_number_is_one_chain_with_one_rounding_per_term(forms: str, bits: int) -> None:
    fma = ctypes.CDLL(ctypes.util.find_library("m")).fmaf
    fma.argtypes, fma.restype = [ctypes.c_float] * 3, ctypes.c_float
    left, right = given(forms, 9, 35, 270)
    out = np.zeros((9, 35), np.float32)
    product(bits, left, right, out, forms)
    rows, columns = plain(left, forms[0]), plain(right, forms[1])
    for row, column in [(0, 0), (3, 17), (7, 31), (8, 32), (8, 34)]:
        chain = 0.0
        for a, b in zip(rows[row].tolist(), columns[:, column].tolist(), strict=True):
            chain = fma(a, b, chain)
        assert out[row, column] == chain


@pytest.mark.parametrize("forms", ["NN", "NT", "TN"])
def test_the_width_of_the_vectors_changes_no_bit(forms: str) -> None:
    left, right = given(forms, 45, 150, 300)
    narrow, wide = np.zeros((45, 150), np.float32), np.ones((45, 150), np.float32)
    product(256, left, right, narrow, forms)
    product(512, left, right, wide, forms)
    assert np.array_equal(narrow, wide)


@pytest.mark.parametrize("bits", BITS)
def test_how_it_is_cut_changes_no_bit(bits: int) -> None:
    left, right = given("NN", 45, 150, 300)
    whole, parts, depths = (np.zeros((45, 150), np.float32) for _ in range(3))
    product(bits, left, right, whole)
    for rows in (slice(0, 1), slice(1, 14), slice(14, 45)):
        for columns in (slice(0, 70), slice(70, 150)):
            product(bits, left[rows], right[:, columns], parts[rows, columns])
    assert np.array_equal(whole, parts)
    for inner in (slice(0, 100), slice(100, 300)):
        product(bits, left[:, inner], right[inner], depths, adds=True)
    assert np.array_equal(whole, depths)
