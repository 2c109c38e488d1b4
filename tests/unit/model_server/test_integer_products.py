from collections import Counter

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from kb_local.model_server.integer_products import with_integer_products
from kb_local.model_server.pinned_files import MINILM_WEIGHTS

RANDOM = np.random.default_rng(7)


def model_of(products: int) -> ModelProto:
    """Return a model of `products` products in a row, each by stored integers with a scale for each column."""
    nodes, stored = [], []
    for number in range(products):
        integers, scales = f"integers{number}", f"scales{number}"
        stored.append(numpy_helper.from_array(RANDOM.integers(-127, 128, (64, 64), dtype=np.int8), integers))
        stored.append(numpy_helper.from_array(RANDOM.uniform(0.0005, 0.002, (1, 64)).astype(np.float32), scales))
        nodes.append(helper.make_node("Cast", [integers], [f"floats{number}"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Mul", [f"floats{number}", scales], [f"weights{number}"]))
        nodes.append(helper.make_node("MatMul", [f"x{number}", f"weights{number}"], [f"x{number + 1}"]))
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["texts", 64])],
        [helper.make_tensor_value_info(f"x{products}", TensorProto.FLOAT, ["texts", 64])],
        initializer=stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def run(model: ModelProto, given: object) -> object:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x0": given})
    return found


def test_products_of_integers_are_near_those_of_floats() -> None:
    model = model_of(3)
    given = RANDOM.normal(size=(5, 64)).astype(np.float32)
    wanted, found = np.asarray(run(model, given)), np.asarray(run(with_integer_products(model), given))
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


def test_every_product_by_stored_integers_is_one_of_integers_and_nothing_else_is_kept() -> None:
    changed = with_integer_products(model_of(3))
    kinds = Counter(node.op_type for node in changed.graph.node)
    assert kinds == {"DynamicQuantizeLinear": 3, "MatMulInteger": 3, "Cast": 3, "Mul": 6}
    assert {each.name for each in changed.graph.initializer} == {
        name for number in range(3) for name in (f"integers{number}_halved", f"scales{number}_doubled")
    }


def test_a_product_of_two_inputs_stays_as_it_is() -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x0", "x0"], ["x1"])],
        "square",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [64, 64])],
        [helper.make_tensor_value_info("x1", TensorProto.FLOAT, [64, 64])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert with_integer_products(model) == model


def test_all_36_products_by_weights_of_the_packaged_model_are_of_integers() -> None:
    changed = with_integer_products(onnx.load(MINILM_WEIGHTS.locate()))
    assert Counter(node.op_type for node in changed.graph.node)["MatMulInteger"] == 36


def test_no_sum_of_two_products_overflows_sixteen_bits() -> None:
    changed = with_integer_products(model_of(1))
    [integers] = [
        numpy_helper.to_array(each) for each in changed.graph.initializer if each.data_type == TensorProto.INT8
    ]
    assert 2 * 255 * np.abs(integers.astype(int)).max() < 2**15
