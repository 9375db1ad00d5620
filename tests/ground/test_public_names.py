"""Public names: each is exported from one package, and all types in signatures are public."""

import ast
import functools
import inspect
import re
import sys
import typing
from collections import defaultdict
from importlib import import_module

import pytest

import hardmax as hm
from hardmax._ground.public_names import PACKAGES

PUBLIC = {
    f"{package}.{name}": getattr(import_module(package), name)
    for package in PACKAGES
    for name in import_module(package).__all__
}
OBJECTS = {place: obj for place, obj in PUBLIC.items() if not inspect.ismodule(obj)}


def test_the_packages_are_those_that_are_public():
    modules = {obj.__name__ for obj in PUBLIC.values() if inspect.ismodule(obj)}
    assert modules | {"hardmax"} == set(PACKAGES)


def test_a_thing_has_one_public_name():
    places = defaultdict(list)
    for place, obj in OBJECTS.items():
        places[id(obj)].append(place)
    assert [found for found in places.values() if len(found) > 1] == []


def test_a_name_means_one_thing():
    places = defaultdict(list)
    for place in PUBLIC:
        places[place.rpartition(".")[2]].append(place)
    assert [found for found in places.values() if len(found) > 1] == []


def test_the_first_help_shows_every_name():
    words = set(hm.__doc__.replace(",", " ").split())
    assert set(hm.__all__) <= words


@pytest.mark.parametrize(
    ("place", "name", "home"),
    [
        (hm, "temperature_for", "hardmax.stability.temperature_for"),
        (hm, "rotary_head", "hardmax.models.rotary_head"),
        (hm.models, "ReluNetwork", "hardmax.ReluNetwork"),
        (hm.plotting, "plot", "hardmax.plot"),
        (hm.bounds, "theorem_v2", "hardmax.bounds.paper.theorem_v2"),
    ],
)
def test_a_name_asked_for_in_the_wrong_place_says_where_it_is(place, name, home):
    with pytest.raises(AttributeError, match=f"no attribute {name}: it is {home}$"):
        getattr(place, name)


@pytest.mark.parametrize("name", ["softmax", "_private", "__wrapped__"])
def test_a_name_that_is_nowhere_is_refused_plainly(name):
    with pytest.raises(AttributeError, match=f"^hardmax has no attribute {name}$"):
        getattr(hm, name)


def test_every_public_function_has_an_example():
    functions = {place: obj for place, obj in OBJECTS.items() if inspect.isfunction(obj)}
    without = [place for place, obj in functions.items() if ">>> " not in inspect.getdoc(obj)]
    assert len(functions) > 100
    assert without == []


def test_examples_use_public_names():
    for place, obj in OBJECTS.items():
        imported = re.findall(r">>> from (hardmax[\w.]*) import", inspect.getdoc(obj) or "")
        assert set(imported) <= set(PACKAGES), place


# The types of arguments, results and fields


@functools.cache
def namespace(module_name):
    """Return the names defined in a module, including imports for type checkers."""
    module = sys.modules[module_name]
    names = dict(vars(module))
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                exec(ast.unparse(statement), names)
    return names


def classes(annotation, names):
    """Yield the classes in an annotation, including nested ones."""
    if isinstance(annotation, str):
        annotation = eval(annotation, names)
    if isinstance(annotation, typing.ForwardRef):
        yield from classes(annotation.__forward_arg__, names)
    elif isinstance(annotation, list):
        for part in annotation:
            yield from classes(part, names)
    elif typing.get_origin(annotation) is not typing.Literal:
        if inspect.isclass(annotation):
            yield annotation
        for part in typing.get_args(annotation):
            yield from classes(part, names)


def iter_annotated(obj):
    """Yield the annotated parts of a public object: functions, and fields as pairs."""
    if not inspect.isclass(obj):
        yield inspect.unwrap(obj)
        return
    for owner in obj.__mro__:
        if not owner.__module__.startswith("hardmax"):
            continue
        yield owner
        for name, member in vars(owner).items():
            if name.startswith("_") and not name.endswith("__"):
                continue
            inner = getattr(member, "func", getattr(member, "fget", member))
            inner = inspect.unwrap(getattr(inner, "__func__", inner))
            if inspect.isfunction(inner) and inner.__module__ == owner.__module__:
                yield inner


def classes_used_by(obj):
    """Return the classes of the library in the annotations of an object."""
    return {
        found
        for part in iter_annotated(obj)
        for name, annotation in getattr(part, "__annotations__", {}).items()
        if not name.startswith("_")
        for found in classes(annotation, namespace(part.__module__))
        if found.__module__.startswith("hardmax")
    }


def test_whatever_is_taken_or_returned_has_a_public_name():
    known = {id(obj) for obj in OBJECTS.values()}
    unnamed = {
        f"{found.__module__}.{found.__qualname__}, in {place}"
        for place, obj in OBJECTS.items()
        if callable(obj)
        for found in classes_used_by(obj)
        if id(found) not in known
    }
    assert unnamed == set()


def test_the_walk_sees_fields_results_arguments_and_imports_for_type_checkers():
    assert hm.regions.CellArrays in classes_used_by(hm.Partition)
    assert hm.Certificate in classes_used_by(hm.Partition)
    assert hm.regions.SampledCount in classes_used_by(hm.sample_regions)
    assert hm.models.Activation in classes_used_by(hm.constructions.read_network_file)
    assert hm.tropical.AffinePieces in classes_used_by(hm.TropicalRationalMap)
