"""The greedy policy as an ONNX graph, written out node by node so that it reads like `networks.predict`.

Each critic is a branch of its own, because runtimes have their fastest products for plain matrices, and layers without
an activation between them are multiplied together, as in `native/folding.c`: the input and the first block layer, where
there are fewer observations than hidden units, and LayerNorm's scale and shift with the head. Measured at walker sizes
with 10 critics, the two halve the time of an observation and the size of the file.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.acting.normalisation import LARGEST, ObservationNormaliser
from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.envs.spaces.choice_table import ActionPart, ChoiceTable
from revalued.errors import UserError
from revalued.native.merging import merging_shrinks
from revalued.networks import LAYER_NORM_EPSILON, NetworkShape

OPSET, IR_VERSION = 17, 8
"""The oldest ones with LayerNormalization: runtimes from 2022 on can run the file."""


def onnx_package() -> Any:
    """Import onnx, or say how to install it."""
    try:
        return importlib.import_module("onnx")
    except ModuleNotFoundError as error:
        raise UserError("export needs onnx, which is not installed: pip install 'revalued[export]'") from error


class Graph:
    """Nodes and constants collected one after another; a value has the name of the node that computes it."""

    def __init__(self) -> None:
        self._onnx = onnx_package()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any, dtype: Any = None) -> str:
        """Store a constant and return its name."""
        array = np.ascontiguousarray(value, dtype)
        self.constants.append(self._onnx.numpy_helper.from_array(array.reshape(np.shape(value)), name))
        return name

    def add(self, operator: str, name: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """Append a node and return its name, which is that of its output unless it has several."""
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, outputs or [name], name=name, **attributes))
        return name

    def reshape(self, name: str, value: str, *shape: int) -> str:
        """Append a Reshape, where 0 keeps the size of that axis and −1 takes what is left."""
        return self.add("Reshape", name, value, self.constant(f"{name}.shape", shape, np.int64))


def policy_model(policy: Policy, choices: ChoiceTable, *, masked: bool = False) -> Any:
    """Return the ONNX model: from `observation` (and `mask`) to `sub_actions`, `action` and `utilities`."""
    onnx = onnx_package()
    actions, graph = policy.shape.actions, Graph()
    if actions.environment_sizes != choices.sizes:
        raise ValueError(f"the policy chooses among {actions.environment_sizes}, the environment has {choices.sizes}")
    _choose(graph, _utilities(graph, policy), actions, masked)
    batch, grid = "batch", [actions.num_dimensions, actions.max_choices]
    kinds, info = onnx.TensorProto, onnx.helper.make_tensor_value_info
    inputs = [info("observation", kinds.FLOAT, [batch, policy.shape.observation_size])]
    if masked:
        # a default makes the input optional: one row that allows everything, spread over the batch
        inputs.append(info("mask", kinds.BOOL, ["batch or 1", sum(choices.sizes)]))
        graph.constant("mask", np.ones((1, sum(choices.sizes)), np.bool_))
    outputs = [info("sub_actions", kinds.INT64, [batch, len(choices.sizes)])]
    for part in choices.parts:
        _decode(graph, part)
        kind = onnx.helper.np_dtype_to_tensor_dtype(part.table.dtype)
        outputs.append(info(_output_name(part), kind, [batch, *part.shape]))
    outputs.append(info("utilities", kinds.FLOAT, [batch, *grid]))
    built = onnx.helper.make_graph(graph.nodes, "greedy policy", inputs, outputs, graph.constants)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    return onnx.helper.make_model(built, opset_imports=opsets, ir_version=IR_VERSION, producer_name="revalued")


def _normalised(graph: Graph, normaliser: ObservationNormaliser | None) -> str:
    """Return the observation as the critics take it."""
    if normaliser is None:
        return "observation"
    centred = graph.add("Sub", "observation.centred", "observation", graph.constant("shift", normaliser.shift))
    scaled = graph.add("Mul", "observation.scaled", centred, graph.constant("scale", normaliser.scale))
    ends = (graph.constant(name, np.float32(value)) for name, value in (("lowest", -LARGEST), ("largest", LARGEST)))
    return graph.add("Clip", "observation.normal", scaled, *ends)


def _critic(
    graph: Graph, critic: str, observation: str, shape: NetworkShape, weights: dict[str, NDArray[np.float64]]
) -> str:
    """Return the raw head output [B, O] of one critic; `weights` are its parameters alone."""

    def linear(layer: str, inputs: str, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> str:
        name = f"{critic}.{layer}"
        product = graph.add("MatMul", f"{name}.product", inputs, graph.constant(f"{name}.weight", weight, np.float32))
        return graph.add("Add", name, product, graph.constant(f"{name}.bias", bias, np.float32))

    def normed_linear(layer: str, norm: str, inputs: str) -> str:
        """Scale and shift of a LayerNorm are multiplied into the layer behind it."""
        name, epsilon = f"{critic}.{norm}", LAYER_NORM_EPSILON
        normal = graph.add("LayerNormalization", name, inputs, "ones", axis=-1, epsilon=epsilon)
        weight, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
        return linear(layer, normal, weights[f"{norm}.scale"].T * weight, weights[f"{norm}.shift"] @ weight + bias)

    # the last row of the input layer is its bias
    weight, bias = weights["input"][:-1], weights["input"][-1:]
    hidden = linear("input", observation, weight, bias)
    if shape.torso == "prenorm":
        for block in range(1, shape.blocks + 1):
            inner = normed_linear(f"first{block}", f"norm{block}", hidden)
            inner = graph.add("Relu", f"{critic}.first{block}.relu", inner)
            inner = linear(f"second{block}", inner, weights[f"second{block}.weight"], weights[f"second{block}.bias"])
            hidden = graph.add("Add", f"{critic}.residual{block}", hidden, inner)
        return normed_linear("head", "norm", hidden)
    if merging_shrinks(shape):
        merged = bias @ weights["block1.weight"] + weights["block1.bias"]
        inner = linear("block1", observation, weight @ weights["block1.weight"], merged)
    else:
        inner = linear("block1", hidden, weights["block1.weight"], weights["block1.bias"])
    inner = graph.add("Relu", f"{critic}.block1.relu", inner)
    inner = linear("block2", inner, weights["block2.weight"], weights["block2.bias"])
    inner = graph.add("Relu", f"{critic}.block2.relu", inner)
    return normed_linear("head", "norm", graph.add("Add", f"{critic}.residual", hidden, inner))


def _utilities(graph: Graph, policy: Policy) -> str:
    """Return the ensemble's mean utilities [B, N, A]."""
    shape, outputs = policy.shape, []
    grid = (shape.actions.num_dimensions, shape.actions.max_choices)
    graph.constant("ones", np.ones(shape.hidden_size), np.float32)
    parameters = {name: tensor.detach().cpu().double().numpy() for name, tensor in policy.parameters.items()}
    if policy.support is not None:
        graph.constant("support", policy.support.cpu().numpy())
    observation = _normalised(graph, policy.normaliser)
    for number in range(shape.critics):
        critic = f"critic{number}"
        output = _critic(graph, critic, observation, shape, {name: stack[number] for name, stack in parameters.items()})
        if policy.support is not None:
            logits = graph.reshape(f"{critic}.logits", output, 0, *grid, shape.atoms)
            probabilities = graph.add("Softmax", f"{critic}.probabilities", logits, axis=-1)
            output = graph.add("MatMul", f"{critic}.expected", probabilities, "support")
        outputs.append(output)
    # what follows is linear for all heads, so the mean may come first
    mean = outputs[0] if len(outputs) == 1 else graph.add("Mean", "ensemble_mean", *outputs)
    if policy.support is not None:
        return mean
    return _dueling(graph, mean, shape) if shape.head == "dueling" else graph.reshape("ensemble", mean, 0, *grid)


def _dueling(graph: Graph, output: str, shape: NetworkShape) -> str:
    """Return V + A_i − mean A_i, [B, N, A], from [B, 1 + N·A]."""
    actions = shape.actions
    ends = graph.constant("dueling.sizes", [1, shape.head_size - 1], np.int64)
    graph.add("Split", "split", output, ends, outputs=("dueling.flat_value", "dueling.flat_advantages"), axis=-1)
    advantages = graph.reshape("dueling.advantages", "dueling.flat_advantages", 0, *actions.exists.shape)
    value = graph.reshape("dueling.value", "dueling.flat_value", 0, 1, 1)
    # the mean over choices that exist, as a sum of shares 1/n_i
    share = graph.constant("dueling.share", actions.exists / np.asarray(actions.sizes)[:, None], np.float32)
    axes = graph.constant("dueling.axes", [-1], np.int64)
    shares = graph.add("Mul", "dueling.shares", advantages, share)
    centre = graph.add("ReduceSum", "dueling.centre", shares, axes, keepdims=1)
    return graph.add("Add", "dueling", value, graph.add("Sub", "dueling.centred", advantages, centre))


def _choose(graph: Graph, mean: str, actions: FactorisedActions, masked: bool) -> None:
    """Compute `utilities` [B, N, A], −∞ at what cannot be chosen, and `sub_actions`, their largest per dimension."""
    exists = graph.constant("exists", actions.exists) if actions.is_padded else None
    legal = _legal(graph, actions, exists) if masked else exists
    if legal is None:
        graph.add("Identity", "utilities", mean)
    else:
        graph.add("Where", "utilities", legal, mean, graph.constant("never", np.float32(-np.inf)))
    joint = actions.atomic_over
    choice = graph.add("ArgMax", "sub_actions" if joint is None else "joint_action", "utilities", axis=-1, keepdims=0)
    if joint is not None:
        strides = [math.prod(joint[position + 1 :]) for position in range(len(joint))]
        stride = graph.constant("joint_action.strides", strides, np.int64)
        whole = graph.add("Div", "joint_action.whole", choice, stride)
        graph.add("Mod", "sub_actions", whole, graph.constant("joint_action.sizes", joint, np.int64))


def _legal(graph: Graph, actions: FactorisedActions, exists: str | None) -> str:
    """Spread `mask` [B, Σ sizes] to [B, N, A], as `FactorisedActions.legal` does."""
    offsets = np.cumsum([0, *actions.environment_sizes[:-1]])
    if actions.atomic_over is not None:
        # digit d of every combination, as a place in the mask: a combination is legal if all its sub-actions are
        digits = np.stack(np.unravel_index(np.arange(actions.max_choices), actions.atomic_over))
        legal = ""
        for dimension, digit in enumerate(digits + offsets[:, None]):
            places = graph.constant(f"mask.places.{dimension}", digit[None], np.int64)
            own = graph.add("Gather", f"mask.dimension.{dimension}", "mask", places, axis=1)
            legal = own if dimension == 0 else graph.add("And", f"mask.up_to.{dimension}", legal, own)
        return legal
    places = offsets[:, None] + np.minimum(np.arange(actions.max_choices), np.asarray(actions.sizes)[:, None] - 1)
    spread = graph.add("Gather", "mask.spread", "mask", graph.constant("mask.places", places, np.int64), axis=1)
    return spread if exists is None else graph.add("And", "mask.legal", spread, exists)


def _output_name(part: ActionPart) -> str:
    return f"action.{part.name}" if part.name else "action"


def _decode(graph: Graph, part: ActionPart) -> None:
    """Look the environment's values up: `action` from `sub_actions`."""
    name = _output_name(part)
    own = np.arange(part.first, part.first + part.num_dimensions)
    chosen = graph.add("Gather", f"{name}.chosen", "sub_actions", graph.constant(f"{name}.own", own, np.int64), axis=1)
    starts = np.arange(part.num_dimensions) * part.table.shape[1]
    place = graph.add("Add", f"{name}.place", chosen, graph.constant(f"{name}.starts", starts, np.int64))
    values = graph.constant(f"{name}.values", part.table.reshape(-1))
    graph.reshape(name, graph.add("Gather", f"{name}.flat", values, place, axis=0), 0, *part.shape)
