"""The examples of all public functions and classes: calls with fresh arguments, by name."""

import contextlib
import doctest
import inspect
import io
import sys
from importlib import import_module

from hardmax._ground.public_names import PACKAGES

TAKES_LONG = {
    "hardmax.constructions.literal_shattering_transformer",
    "hardmax.constructions.load_compiled",
    "hardmax.constructions.approximate",
    "hardmax.constructions.Float32Rounding",
    "hardmax.errors.DiscontinuityError",
    "hardmax.models.HeadEffect",
    "hardmax.models.head_effects",
    "hardmax.models.own_key_routing",
    "hardmax.open_partition",
    "hardmax.papers.read_audit",
    "hardmax.papers.write_audit",
    "hardmax.plotting.animate_depth",
    "hardmax.plotting.animate_temperature",
    "hardmax.plotting.plot_annealing",
    "hardmax.plotting.plot_persistent_counts",
    "hardmax.regions.StoredPartition",
    "hardmax.regions.StoredPartition.save_certificate",
    "hardmax.stability.persistent_cells",
    "hardmax.stability.sample_hard_share",
    "hardmax.surveys.HeadSurvey",
    "hardmax.surveys.TokenSlice",
    "hardmax.surveys.survey_heads",
    "hardmax.surveys.token_slices",
    "hardmax.surveys.write_survey",
}
"""Examples of more than 40 milliseconds, which are not repeated: five seconds of the seven."""


def public_examples():
    """Return the examples of public functions, of classes and of their methods, each once."""
    objects = {}
    for package in PACKAGES:
        for name in import_module(package).__all__:
            obj = getattr(import_module(package), name)
            if inspect.isfunction(obj) or inspect.isclass(obj):
                objects.setdefault(id(obj), (f"{package}.{name}", obj))
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [
        example
        for name, obj in objects.values()
        for example in finder.find(obj, name, module=sys.modules[obj.__module__])
    ]
    return {example.name: example for example in found if example.examples}


def prepare(example):
    """Return a function that runs an example without comparing its output."""
    steps = [
        (compile(step.source, f"<{example.name}>", "single"), step.exc_msg is not None)
        for step in example.examples
    ]

    def run():
        names = dict(example.globs)
        with contextlib.redirect_stdout(io.StringIO()):
            for code, is_refused in steps:
                with contextlib.suppress(*[Exception] * is_refused):
                    exec(code, names)

    return run
