"""The products of an update carried out and nothing else, in the arrangements that a learner can choose from.

- `stacked`: one batched product over all critics, with torch's own threads inside it.
- `threads`: one critic after the other on a few Python threads, single-threaded products; an odd critic is halved.
- `blocks`: the same with the batch cut in two, half of it after the other.
- `in C`: as `threads`, with the products of `revalued.native` in place of those of PyTorch's library.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from benchmarks.products import Product, has_batch_rows, is_observation, operand_shape, passes
from benchmarks.sizes import Size, cores
from revalued.native import library, why_missing

ARRANGEMENTS = ("stacked", "threads", "blocks", *(["in C"] if why_missing() is None else []))

_AS_IN_UPDATES = 0

Work = Callable[[], None]
Call = Callable[[Product, dict[str, Tensor], slice, bool], Work]


def prepare(arrangement: str, size: Size) -> Work:
    """Return a function that carries out all products of one update; sets the number of torch's own threads."""
    torch.set_grad_enabled(False)
    torch.set_num_threads(cores() if arrangement == "stacked" else 1)
    generator = torch.Generator().manual_seed(0)
    operands = _operands(size, generator)
    listed = passes(size)
    if arrangement == "stacked":
        calls = [_stacked_call(product, operands, size) for products in listed for product in products]
        return lambda: _each(calls)
    call = _call_in_c if arrangement == "in C" else _call
    return _threaded(listed, operands, size, 2 if arrangement == "blocks" else 1, call)


def _operands(size: Size, generator: torch.Generator) -> dict[str, Tensor]:
    """Return every operand as [K, rows, columns], observations as [rows, columns]; no product makes numbers grow."""
    names = {name for listed in passes(size) for product in listed for name in _names(product)}
    operands = {}
    for name in sorted(names):
        rows, columns = operand_shape(name, size)
        critics = () if is_observation(name) else (size.critics,)
        operands[name] = torch.randn(*critics, rows, columns, generator=generator) / rows**0.5
    return operands


def _names(product: Product) -> tuple[str, str, str]:
    return product.left, product.right, product.out


def _stacked_call(product: Product, operands: dict[str, Tensor], size: Size) -> Work:
    left, right, out = (operands[name] for name in _names(product))
    if is_observation(product.left):
        left = left.expand(size.critics, -1, -1)
    left = left.transpose(1, 2) if product.layout == "TN" else left
    right = right.transpose(1, 2) if product.layout == "NT" else right
    if product.adds:
        return lambda: _ignore(out.baddbmm_(left, right))
    return lambda: _ignore(torch.bmm(left, right, out=out))


def _threaded(listed: list[list[Product]], operands: dict[str, Tensor], size: Size, blocks: int, call: Call) -> Work:
    whole = size.critics - size.critics % 2
    pieces = [_critic_calls(listed, _of(operands, critic), size, blocks, call) for critic in range(whole)]
    if size.critics % 2 == 1:
        last = _of(operands, size.critics - 1)
        pieces += [_half_calls(listed, last, size, half, call) for half in (0, 1)]
    threads = cores()
    pool = ThreadPoolExecutor(max(threads - 1, 1), initializer=_begin_thread)
    shares = [[call for piece in pieces[start::threads] for call in piece] for start in range(threads)]

    def work() -> None:
        others = [pool.submit(_each, share) for share in shares[1:]]
        _each(shares[0])
        for other in others:
            other.result()

    return work


def _begin_thread() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)


def _of(operands: dict[str, Tensor], critic: int) -> dict[str, Tensor]:
    return {name: tensor if is_observation(name) else tensor[critic] for name, tensor in operands.items()}


def _critic_calls(
    listed: list[list[Product]], operands: dict[str, Tensor], size: Size, blocks: int, call: Call
) -> list[Work]:
    """Return the calls of one critic: pass by pass, and within a pass one block of the batch after the other.

    Products of weights alone come once, with the last block: only then is all of a summed gradient there.
    """
    step = -(-size.batch_size // blocks)
    calls = []
    for products in listed:
        for block in range(blocks):
            rows, last = slice(block * step, (block + 1) * step), block == blocks - 1
            for product in products:
                if _uses_batch(product) or last:
                    # the input layer's gradient is the only one that both kinds of products go into
                    continues = block > 0 and (_uses_batch(product) or product.out == "gradient.input")
                    calls.append(call(product, operands, rows, product.adds or continues))
    return calls


def _half_calls(
    listed: list[list[Product]], operands: dict[str, Tensor], size: Size, half: int, call: Call
) -> list[Work]:
    """Return one half of a critic's calls: half of the batch, and every second product of weights alone."""
    middle = size.batch_size // 2
    rows = slice(0, middle) if half == 0 else slice(middle, None)
    # each half sums up a gradient of its own
    own = {name: tensor.clone() if name.startswith("gradient") else tensor for name, tensor in operands.items()}
    products = [product for products in listed for product in products]
    shared = [product for product in products if not _uses_batch(product)][half::2]
    chosen = [product for product in products if _uses_batch(product) or product in shared]
    return [call(product, own, rows, product.adds) for product in chosen]


def _uses_batch(product: Product) -> bool:
    return has_batch_rows(product.left)


def _call(product: Product, operands: dict[str, Tensor], rows: slice, adds: bool) -> Work:
    left, right, out = _tensors(product, operands, rows)
    left = left.t() if product.layout == "TN" else left
    right = right.t() if product.layout == "NT" else right
    if adds and not has_batch_rows(product.out):
        return lambda: _ignore(out.addmm_(left, right))
    return lambda: _ignore(torch.mm(left, right, out=out))


def _call_in_c(product: Product, operands: dict[str, Tensor], rows: slice, adds: bool) -> Work:
    tensors = _tensors(product, operands, rows)
    left, right, out = ((tensor.data_ptr(), tensor.stride(0)) for tensor in tensors)
    inner = tensors[1].shape[1 if product.layout == "NT" else 0]
    function, (left_form, right_form) = library.load().revalued_product, product.layout.encode()
    arguments = (_AS_IN_UPDATES, left_form, right_form, *tensors[2].shape, inner, *left, *right, adds, *out)
    return lambda: _carry_out(function, arguments, tensors)


def _carry_out(function: Callable[..., int], arguments: tuple[int, ...], memory: tuple[Tensor, ...]) -> None:
    """Call with addresses, whose memory has to stay meanwhile."""
    function(*arguments)


def _tensors(product: Product, operands: dict[str, Tensor], rows: slice) -> tuple[Tensor, ...]:
    return tuple(operands[name][rows] if has_batch_rows(name) else operands[name] for name in _names(product))


def _each(calls: list[Work]) -> None:
    for call in calls:
        call()


def _ignore(result: Tensor) -> None:
    """Drop what a call returns: it has been written where it belongs."""
