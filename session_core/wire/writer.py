"""From vocabulary values to plain JSON, quickly: events are written for every network reader and for the journal.

Writing does not track the path. Only if something turns out not to be writable as JSON is the value walked a second
time to find it.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, get_args

from cattrs import Converter
from cattrs.fns import identity
from cattrs.gen import make_dict_unstructure_fn

from session_core import limits
from session_core.errors import ProtocolError
from session_core.vocabulary.frozen import JsonObject, JsonValue, Rope, Vector
from session_core.wire import strict_json
from session_core.wire.catalogue import (
    TAG,
    alternatives,
    is_list,
    is_literal,
    is_optional,
    is_value_class,
    wire_fields,
    wire_tag,
    without_none,
)
from session_core.wire.error_text import ROOT, child_path, describe_json

Writer = Callable[[Any], Any]


class Unwritable(Exception):
    """Something in the value cannot be written as JSON."""


def write(value: object) -> Any:
    """Turn a value into plain dicts, lists and scalars, or raise `Unwritable`."""
    return _CONVERTER.unstructure(value)


def locate_unwritable(value: object) -> ProtocolError:
    """Return an error with the path of the first part of the value that cannot be written as JSON."""
    for fault in _faults(value, ROOT):
        return ProtocolError(fault.reason, field=fault.path)
    return ProtocolError(f"{describe_json(value)} cannot be written as JSON")


def _faults(value: Any, path: str) -> Iterator[strict_json.JsonFault]:
    if is_value_class(type(value)):
        for field in wire_fields(type(value)):
            look = _faults_in_json if field.type == JsonValue else _faults
            yield from look(getattr(value, field.name), child_path(path, field.name))
    elif isinstance(value, Vector | tuple):
        for index, each in enumerate(value):
            yield from _faults(each, child_path(path, index))
    else:
        yield from _faults_in_json(str(value) if isinstance(value, Rope) else value, path)


def _faults_in_json(value: Any, path: str) -> Iterator[strict_json.JsonFault]:
    if fault := strict_json.find_fault(value, limits.MAX_OPEN_JSON_DEPTH):
        yield strict_json.JsonFault(path + fault.path, fault.reason)


def _write_whole_number(number: int) -> int:
    if -limits.MAX_INTEGER <= number <= limits.MAX_INTEGER:
        return number
    raise Unwritable


def _write_open_json(item: JsonValue, levels: int = limits.MAX_OPEN_JSON_DEPTH) -> Any:
    match item:
        case None | bool() | str():
            return item
        case int():
            return _write_whole_number(item)
        case float() if math.isfinite(item):
            return item
        case tuple() if levels > 0:
            return [_write_open_json(each, levels - 1) for each in item]
        case JsonObject() if levels > 0 and all(isinstance(key, str) for key in item):
            return {key: _write_open_json(each, levels - 1) for key, each in item.items()}
        case _:
            raise Unwritable


def _list_writer(hint: Any) -> Writer:
    write_item = _CONVERTER.get_unstructure_hook(get_args(hint)[0])
    if write_item is identity:
        return list
    return lambda items: [write_item(each) for each in items]


def _class_writer(cls: type) -> Writer:
    tag = wire_tag(cls)
    write_fields: Writer = make_dict_unstructure_fn(cls, _CONVERTER)
    return lambda value: {TAG: tag, **write_fields(value)}


def _optional_writer(hint: Any) -> Writer:
    write_present = _CONVERTER.get_unstructure_hook(without_none(hint))
    if write_present is identity:
        return identity
    return lambda value: None if value is None else write_present(value)


def _make_converter() -> Converter:
    converter = Converter()
    # Of two factories that fit a hint, the one registered later is taken.
    converter.register_unstructure_hook_factory(is_value_class, _class_writer)
    converter.register_unstructure_hook_factory(lambda hint: bool(alternatives(hint)), lambda _: converter.unstructure)
    converter.register_unstructure_hook_factory(is_optional, _optional_writer)
    converter.register_unstructure_hook_factory(is_list, _list_writer)
    converter.register_unstructure_hook_factory(is_literal, lambda _: identity)
    converter.register_unstructure_hook_func(lambda hint: hint == JsonValue, _write_open_json)
    plain_writers: dict[Any, Writer] = {
        int: _write_whole_number,
        bool: identity,
        Rope: str,
        JsonObject: _write_open_json,
        Vector: lambda items: [converter.unstructure(each) for each in items],
        tuple: lambda items: [converter.unstructure(each) for each in items],
    }
    for hint, writer in plain_writers.items():
        converter.register_unstructure_hook(hint, writer)
    return converter


_CONVERTER = _make_converter()
