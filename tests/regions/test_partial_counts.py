"""What a search that was stopped early says, and what it does not let itself be taken for."""

import math
import operator
import pickle
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax._ground.interrupts import defer_interrupts, pack_when_done
from hardmax.errors import ArgumentError, HardmaxError, IncompleteError, Interrupted
from hardmax.geometry.domains import Box, Segment
from hardmax.models.networks import ReluNetwork
from hardmax.regions import cells, certificates, partition
from hardmax.regions._measures import plane as planar_measures
from hardmax.regions._plane import cells as plane_cells
from hardmax.regions.counts import AtLeast
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.level_sets import level_set
from tests.region_models import gaussian_relu, integer_relu

ENGINES = [(1, False), (2, False), (3, False), (2, True)]


def cube(dim, size=2.0):
    return Box([-size] * dim, [size] * dim)


def stopped(dim=2, exact=False, max_cells=7):
    return enumerate_regions(
        gaussian_relu(1, [dim, 8, 6]), cube(dim), exact=exact, max_cells=max_cells
    )


# ---- the count itself


def test_a_lower_bound_is_no_number():
    count = AtLeast(5)
    assert not isinstance(count, int)
    for use in (int, float, operator.index, range, math.sqrt, round, np.zeros):
        with pytest.raises(TypeError):
            use(count)
    for compute in (operator.add, operator.mul, operator.sub, operator.truediv, operator.pow):
        for other in (1, 1.5, np.int64(3), np.float64(2.0), np.arange(3), Fraction(1, 2)):
            with pytest.raises(TypeError):
                compute(count, other)
            with pytest.raises(TypeError):
                compute(other, count)
    with pytest.raises(TypeError):
        sum([count, count])
    with pytest.raises(TypeError):
        [0, 1, 2][count]


def test_a_lower_bound_says_at_least_wherever_it_is_printed():
    count = AtLeast(12345)
    assert str(count) == repr(count) == "at least 12345"
    assert f"{count:,}" == "at least 12,345"
    assert f"{count}" == "%s" % count == "at least 12345"  # noqa: UP031


@pytest.mark.parametrize("five", [5, 5.0, np.int64(5), np.float64(5.0), Fraction(5)])
def test_comparisons_that_are_certain_are_answered(five):
    count = AtLeast(5)
    assert count >= five
    assert five <= count
    assert count > five - 1
    assert five - 1 < count
    assert (count < five) is False
    assert (five > count) is False
    assert (count <= five - 1) is False
    assert (five - 1 >= count) is False
    assert count < math.inf
    assert count


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c > 5,
        lambda c: c <= 5,
        lambda c: np.int64(5) < c,
        lambda c: c >= 6,
        lambda c: c < 6,
        lambda c: np.int64(6) <= c,
        lambda c: c > AtLeast(3),
        lambda c: max(10, c),
        lambda c: sorted([c, 8]),
        lambda c: c >= math.nan,
        lambda c: bool(AtLeast(0)),
    ],
)
def test_comparisons_nobody_can_answer_are_refused(ask):
    with pytest.raises(IncompleteError, match="`count` cannot be compared"):
        ask(AtLeast(5))


def test_a_lower_bound_equals_no_number_and_compares_with_no_word():
    for number in (4, 5, 6, 5.0, np.int64(5), np.float64(5)):
        assert (AtLeast(5) == number) is False
        assert (number == AtLeast(5)) is False
        assert AtLeast(5) != number
        assert AtLeast(5) not in {number}
    assert AtLeast(5) == AtLeast(5) != AtLeast(6)
    assert hash(AtLeast(5)) == hash(AtLeast(5))
    assert pickle.loads(pickle.dumps(AtLeast(5))) == AtLeast(5)
    with pytest.raises(TypeError):
        assert AtLeast(5) < "6"
    with pytest.raises(ArgumentError, match="`lower`"):
        AtLeast(-1)


# ---- partitions


@pytest.mark.parametrize(("dim", "exact"), ENGINES)
def test_every_engine_says_at_least_when_a_limit_stops_it(dim, exact):
    part = stopped(dim, exact)
    whole = enumerate_regions(gaussian_relu(1, [dim, 8, 6]), cube(dim))
    assert part.n_found == len(part.signatures) == 7
    for count, truth in (
        (part.n_cells, whole.n_cells),
        (part.n_regions, whole.n_regions),
        (part.n_affine_maps, whole.n_affine_maps),
    ):
        assert isinstance(count, AtLeast)
        assert 0 < count.lower <= truth
    assert all(type(n) is int for n in (whole.n_cells, whole.n_regions, whole.n_affine_maps))
    assert f"{part.n_cells} cells" in repr(part)
    assert isinstance(enumerate_regions(gaussian_relu(1, [dim, 8, 6]), cube(dim), exact=exact,
                                        max_cells=3, count_only=True).n_cells, AtLeast)  # fmt: skip


def test_pieces_that_cells_not_found_may_join_are_not_counted_as_regions():
    # |x| + |y| through redundant units: the map is the same on both sides of x = 1 and of x = -1.
    first = [[1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, -1.0, 0.0, 0.0, 0.0]]
    bias = [0.0, 0.0, 0.0, 0.0, -1.0, 1.0, -0.5]
    net = ReluNetwork([first, [[1.0]] * 4 + [[0.0]] * 3], [bias, None])
    whole = enumerate_regions(net, cube(2))
    assert whole.n_cells > whole.n_regions == 4
    for limit in range(1, whole.n_cells):
        for exact in (False, True):
            part = enumerate_regions(net, cube(2), max_cells=limit, exact=exact)
            assert part.n_regions.lower <= 4
            assert part.n_regions.lower == part.n_affine_maps.lower


def test_the_first_regions_along_a_line_are_counted():
    zigzag = ReluNetwork([[[1.0, 1.0, 1.0]], [[1.0], [-2.0], [2.0]]], [[0.0, -1.0, -2.0], [0.0]])
    part = enumerate_regions(zigzag, Segment([-1.0], [3.0]), max_cells=3)
    assert (part.n_regions, part.n_affine_maps) == (AtLeast(3), AtLeast(3))


def test_what_needs_all_cells_refuses_some_of_them():
    part = stopped()
    asks = {
        "certificate": part.certificate,
        "statistics": lambda: part.statistics,
        "len": lambda: len(part),
        "level_set": lambda: level_set(part),
        "partition": lambda: hm.constructions.maxout_from_partition(part, cube(2)),
    }
    for name, ask in asks.items():
        with pytest.raises(IncompleteError, match=f"`{name}` needs all cells, .* `n_found` is 7"):
            ask()
    assert part


def test_what_can_be_said_of_some_cells_is_said():
    part = stopped()
    assert part.map_classes.shape == part.region_labels.shape == part.volumes.shape == (7,)
    assert part.exact_witnesses.shape == (7, 2)
    assert part.locate(part.witnesses).tolist() == list(range(7))
    assert part.neighbours.pairs.max() < 7
    assert len(part.chebyshev_centres[1]) == 7
    with pytest.raises(ArgumentError, match="`cell` must be at most 6"):
        part.rows(7)


def test_some_cells_come_back_from_a_file_as_some_cells(tmp_path):
    pytest.importorskip("pyarrow")
    model, part = gaussian_relu(1, [2, 8, 6]), stopped()
    hm.save_partition(part, tmp_path / "some.parquet")
    back = hm.load_partition(tmp_path / "some.parquet", model, cube(2))
    assert (back.n_cells, back.n_found, back.is_complete) == (AtLeast(7), 7, False)
    assert back.n_regions == part.n_regions


def test_some_cells_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    for exact in (False, True):
        for colour in ("region", "map", "cell"):
            hm.plot(stopped(exact=exact), color=colour)


# ---- interrupts


def test_interrupted_is_both_and_survives_pickling():
    assert issubclass(hm.errors.Interrupted, HardmaxError)
    assert issubclass(hm.errors.Interrupted, KeyboardInterrupt)
    back = pickle.loads(pickle.dumps(Interrupted("words", [1, 2])))
    assert (str(back), back.partial) == ("words", [1, 2])


def test_an_interrupt_waits_for_the_end_of_what_holds_it():
    done = []

    def block():
        with defer_interrupts(), defer_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == [1]
    with defer_interrupts(deliver=False):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_packing_loses_nothing():
    def pack(is_complete):
        signal.raise_signal(signal.SIGINT)
        return "all", is_complete

    with pytest.raises(Interrupted) as stop:
        pack_when_done(lambda: True, pack)
    assert stop.value.partial == ("all", True)


@pytest.mark.parametrize("where", ["read_network", "charted"])
def test_an_interrupt_before_the_search_has_no_partition(monkeypatch, where):
    from hardmax.regions import engines

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(engines, where, interrupted)
    with pytest.raises(Interrupted, match="before it began") as stop:
        enumerate_regions(gaussian_relu(1, [2, 3]), cube(2))
    assert stop.value.partial is None


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_an_interrupt_while_an_engine_is_made_ready_leaves_an_empty_partition(monkeypatch, dim):
    from hardmax.regions._lines import lines
    from hardmax.regions._search import runs as core_runs

    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(lines, "LineSearch", interrupted)
    monkeypatch.setattr(core_runs, "Run", interrupted)
    with pytest.raises(Interrupted) as stop:
        enumerate_regions(gaussian_relu(1, [dim, 3]), cube(dim))
    part = stop.value.partial
    assert (part.n_cells, part.n_regions, part.signatures.shape) == (AtLeast(0), AtLeast(0), (0, 3))


@pytest.mark.parametrize(
    ("module", "function", "question"),
    [
        (partition, "candidate_classes", "n_regions"),
        (partition, "candidate_classes", "n_affine_maps"),
        (partition, "connected_classes", "n_regions"),
        (plane_cells, "planar_neighbours", "neighbours"),
        (plane_cells, "planar_neighbours", "n_regions"),
        (planar_measures, "core", "volumes"),
        (cells, "cell_polytope", "exact_volumes"),
        (planar_measures, "core", "statistics"),
        (planar_measures, "core", "chebyshev_centres"),
        (planar_measures, "core", "witnesses"),
        (planar_measures, "core", "exact_witnesses"),
        (certificates, "_candidates", "certificate"),
    ],
)
def test_an_interrupted_question_keeps_the_partition_and_can_be_asked_again(
    monkeypatch, module, function, question
):
    # Some cells share a map, so that neighbours are asked for.
    model = integer_relu(0, [2, 4])
    part, again = (enumerate_regions(model, cube(2)) for _ in range(2))

    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    def ask(partition):
        answer = getattr(partition, question)
        return answer() if callable(answer) else answer

    with monkeypatch.context() as patch:
        patch.setattr(module, function, interrupted)
        with pytest.raises(
            Interrupted, match="was interrupted; `partial` holds the partition"
        ) as e:
            ask(part)
    assert e.value.partial is part
    assert part.n_cells == again.n_cells
    assert part.n_regions == again.n_regions
    ask(part)


def _interrupted_run(body, after=0.3, presses=1, timeout=60):
    """Run a script that says READY, press Ctrl-C when it has, and return what it says then."""
    import time

    script = textwrap.dedent(body)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().strip() == "READY"
    for _ in range(presses):
        time.sleep(after)
        process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err


LONG_SEARCH = """
    import numpy as np, hardmax as hm
    rng = np.random.default_rng(0)
    dim, exact = {dim}, {exact}
    sizes = [dim, 400, 400, 400] if dim == 1 else [dim, 60, 60, 60]
    weights = [rng.normal(size=shape) for shape in zip(sizes, sizes[1:] + [1])]
    net = hm.ReluNetwork(weights, [rng.normal(size=w.shape[1]) for w in weights])
    small = hm.Box([-1e-3] * dim, [1e-3] * dim)
    hm.enumerate_regions(net, small, exact=exact, max_cells=1)
    print("READY", flush=True)
    try:
        while True:  # A line is soon done.
            hm.enumerate_regions(net, hm.Box([-9.0] * dim, [9.0] * dim), exact=exact)
    except KeyboardInterrupt as stop:
        # Between two searches there is nothing to hand over.
        part = getattr(stop, "partial", None) or hm.enumerate_regions(net, small, exact=exact)
        names = {{tuple(name) for name in part.signatures.tolist()}}
        # It may be complete if it was interrupted while it was packed.
        print(isinstance(part.n_cells, int if part.is_complete else hm.regions.AtLeast))
        print(len(names) == part.n_found == len(part.signatures))
        print(all(part.polytope(i).volume > 0 for i in range(min(part.n_found, 3))))
        print(hm.enumerate_regions(net, small, exact=exact, max_cells=2).n_found > 0)
"""


@pytest.mark.parametrize(("dim", "exact"), ENGINES)
@pytest.mark.parametrize("presses", [1, 3])
def test_ctrl_c_in_a_search_hands_over_what_was_found(dim, exact, presses):
    code, out, err = _interrupted_run(
        LONG_SEARCH.format(dim=dim, exact=exact), 0.3 if presses == 1 else 0.001, presses
    )
    if presses == 1:
        assert (code, err) == (0, "")
        assert out.split() == ["True", "True", "True", "True"]
    else:  # Presses that come later meet the script itself.
        assert code in (0, -signal.SIGINT, 1)
        assert out.startswith("True\nTrue") or "KeyboardInterrupt" in err or "Interrupted" in err


def test_ctrl_c_ends_all_threads_of_a_search():
    body = LONG_SEARCH.format(dim=2, exact=False).replace(
        "[9.0] * dim), exact=exact)", "[9.0] * dim), exact=exact, workers=2)"
    )
    assert "workers=2" in body
    code, out, err = _interrupted_run(body)
    assert (code, out.split(), err) == (0, ["True", "True", "True", "True"], "")


def test_ctrl_c_that_nobody_expects_ends_the_script():
    code, out, err = _interrupted_run(
        """
        import numpy as np, hardmax as hm
        rng = np.random.default_rng(0)
        net = hm.ReluNetwork([rng.normal(size=s) for s in ((2, 60), (60, 60), (60, 60), (60, 1))])
        hm.enumerate_regions(net, hm.Box([-1, -1], [1, 1]), max_cells=1)
        print("READY", flush=True)
        counts = []
        while True:
            counts.append(hm.enumerate_regions(net, hm.Box([-9, -9], [9, 9])).n_cells + 0)
        print("a script that goes on")
        """
    )
    assert code == -signal.SIGINT or code == 1
    assert out == ""
    # Between two searches it is a plain one.
    assert "hardmax.errors.Interrupted: the search was interrupted" in err or (
        err.endswith("KeyboardInterrupt\n")
    )


@pytest.mark.parametrize("question", ["certificate()", "n_regions"])
def test_ctrl_c_in_a_question_hands_over_the_partition(question):
    code, out, err = _interrupted_run(
        f"""
        import numpy as np, hardmax as hm
        rng = np.random.default_rng(0)
        weights = [rng.normal(size=s) for s in ((2, 40), (40, 40), (40, 40), (40, 1))]
        net = hm.ReluNetwork(weights, [rng.normal(size=w.shape[1]) for w in weights])
        part = hm.enumerate_regions(net, hm.Box([-3, -3], [3, 3]))
        print("READY", flush=True)
        try:
            while True:
                part.{question}
                for name in ("map_classes", "region_labels", "n_regions"):
                    part.__dict__.pop(name, None)
        except KeyboardInterrupt as stop:
            # Between two questions it is a plain one.
            print(getattr(stop, "partial", part) is part, part.is_complete, part.n_regions > 0)
        """
    )
    assert (code, out.split(), err) == (0, ["True", "True", "True"], "")
