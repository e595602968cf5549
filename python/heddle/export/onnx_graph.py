# SPDX-License-Identifier: Apache-2.0
"""A graph of ONNX under construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Error

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise Error("ONNX models need the package onnx: pip install 'heddle[export]'") from None

OPSET = 17  # the first with LayerNormalization; ONNX 1.12 and onnxruntime 1.12 know it
IR_VERSION = 8  # of ONNX 1.12
ROWS = "rows"  # the dimension that a caller chooses

ELEMENTS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint8): TensorProto.UINT8,
            np.dtype(np.int64): TensorProto.INT64, np.dtype(np.bool_): TensorProto.BOOL}


class Graph:
    """Values are called by their names; each op yields one or more."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def add_input(self, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
        """A value [rows, *shape]."""
        self.inputs.append(helper.make_tensor_value_info(name, ELEMENTS[np.dtype(dtype)], [ROWS, *shape]))
        return name

    def add_output(self, name: str, value: str, dtype: Any, shape: tuple[int, ...]) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, ELEMENTS[np.dtype(dtype)], [ROWS, *shape]))

    def add_tensor(self, values: Any, name: str = "") -> str:
        """A constant, which keeps the type of its numbers."""
        name = name or f"constant_{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The name of what an op yields, or a list of names."""
        names = [f"{op.lower()}_{len(self.nodes)}_{i}" if outputs > 1 else f"{op.lower()}_{len(self.nodes)}"
                 for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names if outputs > 1 else names[0]

    def cut(self, value: str, first: int, end: int) -> str:
        """The numbers [first, end) of each row."""
        bounds = [self.add_tensor(np.array([number], np.int64)) for number in (first, end, 1)]
        return self.add("Slice", value, *bounds)

    def reshape(self, value: str, *shape: int) -> str:
        """0 keeps a dimension, and -1 takes what is left."""
        return self.add("Reshape", value, self.add_tensor(np.array(shape, np.int64)))

    def build(self, metadata: dict[str, str], version: str) -> onnx.ModelProto:
        """The model, which ONNX has checked."""
        graph = helper.make_graph(self.nodes, "policy", self.inputs, self.outputs, self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                  producer_name="heddle", producer_version=version)
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model
