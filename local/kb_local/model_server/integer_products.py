"""Products of integers instead of floats: processors make several of them in the time of one."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


def with_integer_products(model: ModelProto) -> ModelProto:
    """Return `model` with its products by stored integers made of integers; the inputs get a scale at each call.

    Such a product is written as one by floats that are made from stored integers and their scales:
    `MatMul(x, Mul(Cast(integers), scales))`.
    """
    graph = _Graph(model)
    nodes = [new for node in model.graph.node for new in graph.rewritten(node)]
    changed = ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    changed.graph.node.extend(_used(nodes, [output.name for output in model.graph.output]))
    needed = {name for node in changed.graph.node for name in node.input}
    del changed.graph.initializer[:]
    changed.graph.initializer.extend(each for each in graph.initializers.values() if each.name in needed)
    return changed


Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class _Graph:
    """Stored numbers of a model, and the nodes that make its other ones."""

    def __init__(self, model: ModelProto) -> None:
        self.initializers = {each.name: each for each in model.graph.initializer}
        self._makers = {output: node for node in model.graph.node for output in node.output}
        self._scaled: set[str] = set()

    def rewritten(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yield the nodes that stand for `node`: itself, or the steps of a product of integers."""
        found = self._integers_of(node)
        if found is None:
            yield node
            return
        (integers, scales), (given, _), product = found, node.input, node.output[0]
        scaled = [f"{given}_integers", f"{given}_scale", f"{given}_zero"]
        if given not in self._scaled:
            self._scaled.add(given)
            yield helper.make_node("DynamicQuantizeLinear", [given], scaled)
        yield helper.make_node("MatMulInteger", [scaled[0], integers, scaled[2]], [f"{product}_of_integers"])
        yield helper.make_node("Cast", [f"{product}_of_integers"], [f"{product}_of_floats"], to=TensorProto.FLOAT)
        yield helper.make_node("Mul", [scaled[1], scales], [f"{product}_scales"])
        yield helper.make_node("Mul", [f"{product}_of_floats", f"{product}_scales"], [product])

    def _integers_of(self, node: NodeProto) -> tuple[str, str] | None:
        """Return the names of the integers and scales by which `node` multiplies, None if it does not."""
        if node.op_type != "MatMul":
            return None
        scaling = self._makers.get(node.input[1])
        cast = self._makers.get(scaling.input[0]) if scaling is not None and scaling.op_type == "Mul" else None
        if scaling is None or cast is None or cast.op_type != "Cast" or cast.input[0] not in self.initializers:
            return None
        return self._halved(cast.input[0]), self._doubled(scaling.input[1])

    def _halved(self, name: str) -> str:
        """Store integers of seven bits: of eight, sums of two products overflow in processors without VNNI."""
        integers = np.rint(numpy_helper.to_array(self.initializers[name]) / 2).astype(np.int8)
        return self._stored(integers, f"{name}_halved")

    def _doubled(self, name: str) -> str:
        # Of one dimension, so that onnxruntime makes one step of the five.
        return self._stored(numpy_helper.to_array(self.initializers[name]).reshape(-1) * 2, f"{name}_doubled")

    def _stored(self, numbers: Numbers, name: str) -> str:
        self.initializers[name] = numpy_helper.from_array(numbers, name)
        return name


def _used(nodes: list[NodeProto], outputs: list[str]) -> list[NodeProto]:
    """Return the nodes from which `outputs` are made; a graph has them in the order in which they are computed."""
    needed, used = set(outputs), []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            used.append(node)
    return used[::-1]
