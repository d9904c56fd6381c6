"""Sequences and optionals: the shapes of the items, each of its own or one for all, are followed beside the values."""

from __future__ import annotations

import onnx_ir as ir

from onnx_notebook_profiler.symbolic.engine_sizes import Shape
from onnx_notebook_profiler.symbolic.expression import Expr, ceil_div
from onnx_notebook_profiler.symbolic.items import Items
from onnx_notebook_profiler.symbolic.rules.registry import rule
from onnx_notebook_profiler.symbolic.shape_call import Call, Undecided, axis_of

__all__: list[str] = []

_MOST_ITEMS = 1024


def _items(call: Call, position: int = 0) -> Items:
    value = call.value(position)
    found = None if value is None else call.inference.items.get(value)
    return found if found is not None else Items(None, None, None)


def _give(call: Call, items: Items) -> None:
    output = call.node.outputs[0]
    kind = ir.TensorType(items.dtype or ir.DataType.UNDEFINED)
    output.type = ir.SequenceType(kind)
    call.inference.items[output] = items


def _common(shapes: tuple[Shape | None, ...]) -> Shape | None:
    return shapes[0] if shapes and all(shape == shapes[0] for shape in shapes) else None


@rule("SequenceEmpty")
def infer_empty(call: Call) -> None:
    """No item."""
    _give(call, Items(ir.DataType(int(call.attributes.get("dtype", 1))), (), None))


@rule("SequenceConstruct")
def infer_construct(call: Call) -> None:
    """One item for each input."""
    shapes = tuple(call.known_shape(position) for position in range(len(call.node.inputs)))
    _give(call, Items(call.dtype(0), shapes, _common(shapes)))


def _place(call: Call, position: int, count: int) -> int | None:
    """A position from 0 on; None where it is not known."""
    if not call.has(position):
        return count - 1
    numbers = call.numbers(position)
    if numbers is None:
        return None
    place = int(numbers[0])
    return place + count if place < 0 else place


@rule("SequenceInsert")
def infer_insert(call: Call) -> None:
    """One item more, at the end unless a position is given."""
    items, shape = _items(call), call.known_shape(1)
    dtype = items.dtype or call.dtype(1)
    if items.shapes is None:
        _give(call, Items(dtype, None, shape if items.common == shape else None))
        return
    count = len(items.shapes)
    place = count if not call.has(2) else _place(call, 2, count)
    same = _common((*items.shapes, shape))
    if place is None:
        shapes = (*items.shapes, shape) if same is not None else None
        _give(call, Items(dtype, shapes, same))
        return
    _give(call, Items(dtype, (*items.shapes[:place], shape, *items.shapes[place:]), same))


@rule("SequenceErase")
def infer_erase(call: Call) -> None:
    """One item less."""
    items = _items(call)
    if items.shapes is None:
        _give(call, items)
        return
    place = _place(call, 1, len(items.shapes))
    if place is None:
        shapes = items.shapes[1:] if items.common is not None else None
    else:
        shapes = (*items.shapes[:place], *items.shapes[place + 1 :])
    _give(call, Items(items.dtype, shapes, _common(shapes) if shapes else items.common))


@rule("SequenceAt")
def infer_at(call: Call) -> None:
    """The item at a position."""
    items = _items(call)
    call.give(0, None, items.dtype)
    shape = items.common
    if shape is None and items.shapes is not None:
        place = _place(call, 1, len(items.shapes))
        if place is not None and 0 <= place < len(items.shapes):
            shape = items.shapes[place]
    if shape is None:
        raise Undecided("the shapes of the sequence's items differ, or are not known")
    call.give(0, shape, items.dtype)


@rule("SequenceLength")
def infer_length(call: Call) -> None:
    """One number."""
    call.give(0, (), ir.DataType.INT64)


@rule("SplitToSequence")
def infer_split(call: Call) -> None:
    """Parts of given lengths, or of one length, or of 1 each."""
    shape = call.shape(0)
    axis = axis_of(int(call.attributes.get("axis", 0)), len(shape))
    size = shape[axis]

    def part(length: Expr) -> Shape:
        return (*shape[:axis], length, *shape[axis + 1 :])

    lengths: list[Expr] | None = None
    common: Expr | None = None
    if not call.has(1):
        common = Expr.constant(1)
        if size.is_constant and size.value <= _MOST_ITEMS:
            lengths = [common] * size.value
    elif call.content(1) is not None:
        entries = call.entries(1)
        if call.shape(1):
            lengths = entries
        elif size.is_constant and entries[0].is_constant and entries[0].value > 0:
            length = entries[0].value
            count = ceil_div(size, length).value
            if count <= _MOST_ITEMS:
                lengths = [
                    Expr.constant(min(length, size.value - n * length)) for n in range(count)
                ]
    if lengths is None:
        whole = None if common is None else _kept(call, part(common), axis)
        _give(call, Items(call.dtype(0), None, whole))
        return
    shapes = tuple(_kept(call, part(length), axis) for length in lengths)
    _give(call, Items(call.dtype(0), shapes, _common(shapes)))


def _kept(call: Call, shape: Shape, axis: int) -> Shape:
    """Without the axis, where the node has no lengths and ``keepdims`` is 0."""
    if call.has(1) or call.attributes.get("keepdims", 1):
        return shape
    return (*shape[:axis], *shape[axis + 1 :])


@rule("ConcatFromSequence")
def infer_concat(call: Call) -> None:
    """The items along an axis, or along a new one."""
    items = _items(call)
    call.give(0, None, items.dtype)
    axis, new = int(call.attributes["axis"]), bool(call.attributes.get("new_axis", 0))
    if not items.shapes:
        shape = items.common
        if shape is None:
            raise Undecided("what the sequence holds is not known")
        count = call.data_dim(0, axis % (len(shape) + new), None)
        place = axis_of(axis, len(shape) + new)
        total = count if new else shape[place] * count
        call.give(0, (*shape[:place], total, *shape[place + (not new) :]), items.dtype)
        return
    known = [shape for shape in items.shapes if shape is not None]
    if len(known) < len(items.shapes):
        raise Undecided("the shape of an item is not known")
    place = axis_of(axis, len(known[0]) + new)
    total = Expr.constant(len(known)) if new else Expr.sum(shape[place] for shape in known)
    call.give(0, (*known[0][:place], total, *known[0][place + (not new) :]), items.dtype)


@rule("Optional")
def infer_optional(call: Call) -> None:
    """Its input, which may be missing."""
    output, value = call.node.outputs[0], call.value(0)
    if value is None:
        raise Undecided("an optional that is empty has no size")
    call.inference.hand_over(value, output)
    if value.type is not None:
        output.type = ir.OptionalType(value.type)


@rule("OptionalGetElement")
def infer_optional_element(call: Call) -> None:
    """What the optional holds."""
    output, value = call.node.outputs[0], call.value(0)
    call.inference.hand_over(value, output)
    if value is not None and isinstance(value.type, ir.OptionalType):
        output.type = value.type.elem_type


@rule("OptionalHasElement")
def infer_has_element(call: Call) -> None:
    """One boolean."""
    call.give(0, (), ir.DataType.BOOL)
