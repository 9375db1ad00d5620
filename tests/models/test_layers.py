"""The way through a network with one more kind of number: fractions, by the definition."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from hardmax.models._arithmetic.layers import VectorBackend, decide, evaluate
from hardmax.models.argmax import AffineMap
from tests.models.test_evaluation import affine_maps, networks
from tests.reference.networks import affine, argmax_network, dot, form_rows, parts


def added(stream, result):
    return [a + b for a, b in zip(stream, result, strict=True)]


FRACTIONS = VectorBackend(lambda m, z: affine(z, *parts(m)), added)


class Definition:
    """What groups contribute, tied forms their mean; remembers who won, and where."""

    def __init__(self):
        self.signature = {}

    def __call__(self, place, query):
        layer = place.layer
        scores = [
            dot(a, query) + Fraction(c)
            for a, c in zip(form_rows(layer), layer.offsets.tolist(), strict=True)
        ]
        y = [Fraction(0)] * layer.output.dim_in
        for g, slot in enumerate(layer.slots.tolist()):
            group = range(layer.starts[g], layer.starts[g + 1])
            tied = [j for j in group if scores[j] == max(scores[i] for i in group)]
            self.signature[place.groups.start + g] = tied[0] - layer.starts[g]
            for j in tied:
                y[slot] += Fraction(layer.gains[j]) * scores[j] / len(tied)
                for k, value in enumerate(layer.values[j].tolist()):
                    y[slot + k] += Fraction(value) / len(tied)
        return y


@given(networks(), st.data())
def test_fractions_take_the_way_of_the_definition(case, data):
    network, points = case
    dim = network.dim_in
    chart = data.draw(st.none() | affine_maps(dim, dim, st.integers(-2, 2).map(float)))
    t = [Fraction(v) for v in points[0].tolist()]
    x = t if chart is None else affine(t, *parts(chart))
    output, signature = argmax_network(x, network)
    evaluated, decided = Definition(), Definition()
    assert evaluate(network, t, FRACTIONS, evaluated, chart) == output
    decide(network, t, FRACTIONS, decided, chart)
    expected = dict(enumerate(signature))
    assert evaluated.signature == expected
    assert decided.signature == expected


@given(networks())
def test_a_decision_asks_for_nothing_after_the_last_group(case):
    network, points = case
    seen = []

    def apply(affine_map, z):
        seen.append(affine_map)
        return affine(z, *parts(affine_map))

    decide(
        network,
        [Fraction(v) for v in points[0].tolist()],
        VectorBackend(apply, added),
        Definition(),
    )
    last = network.layers[-1].output if network.layers else None
    assert network.readout not in seen
    assert last not in seen


def test_the_identity_is_not_applied():
    def refused(*_):
        raise AssertionError

    z = [Fraction(3)]
    assert VectorBackend(refused, refused).apply_affine(AffineMap.identity(1), z) is z
