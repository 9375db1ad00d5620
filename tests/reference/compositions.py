"""Layers applied to affine forms, by their definition in fractions: slow, obvious, independent.

A list of forms is a list of rows of fractions, constants last; the constant form 1 is not listed.
"""

from fractions import Fraction

from tests.reference.networks import form_rows, parts


def layer_scores(layer, forms):
    """The score of every form of a layer, as a row."""
    query = _affine(forms, *parts(layer.query))
    return [
        _combined(slopes, query, offset)
        for slopes, offset in zip(form_rows(layer), layer.offsets.tolist(), strict=True)
    ]


def layer_output(layer, forms, winners, ties):
    """The forms after a layer; where forms tie with a winner, the mean over them."""
    scores = layer_scores(layer, forms)
    n_columns = len(forms[0])
    blocks = [[Fraction(0)] * n_columns for _ in range(layer.output.dim_in)]
    for group, winner in enumerate(winners):
        tied, slot = ties.get(group, [winner]), int(layer.slots[group])
        for form in tied:
            gain = Fraction(float(layer.gains[form])) / len(tied)
            blocks[slot] = [x + gain * y for x, y in zip(blocks[slot], scores[form], strict=True)]
            for k, value in enumerate(layer.values[form].tolist()):
                blocks[slot + k][-1] += Fraction(value) / len(tied)
    written = _affine(blocks, *parts(layer.output))
    if not layer.residual:
        return written
    return [[x + y for x, y in zip(a, b, strict=True)] for a, b in zip(written, forms, strict=True)]


def _affine(forms, weight, bias):
    columns = zip(*weight, strict=True)
    return [_combined(column, forms, b) for column, b in zip(columns, bias, strict=True)]


def _combined(coefficients, forms, constant):
    total = [Fraction(0)] * (len(forms[0]) - 1) + [Fraction(constant)]
    for coefficient, form in zip(coefficients, forms, strict=True):
        if coefficient:
            factor = Fraction(coefficient)
            total = [x + factor * y for x, y in zip(total, form, strict=True)]
    return total
