"""Put a head in place of any model's classifier, and take it out again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from torch import nn
from torch.nn.utils import parametrize

from edgemask.errors import UserError

__all__ = ["attach", "detach", "find_classifier", "replace_by"]

M = TypeVar("M", bound=nn.Module)

# Where libraries keep their classifier: torchvision, timm, transformers and research code.
_USUAL_NAMES = ("head", "heads", "fc", "classifier", "score", "linear", "last_linear", "fc2")
# Where torch's wrappers (distribution, compilation) keep the model.
_WRAPPED = ("module", "_orig_mod")
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)


def find_classifier(model: nn.Module) -> str:
    """Return the dotted name of a model's classifier, the linear layer that gives the logits.

    Looked at in this order: timm's ``get_classifier``; a layer under one of the usual names (and,
    where that is a stack of layers, its last linear one, or the one whose size is the number of
    labels that a transformers config states); the last layer of an ``nn.Sequential``; the only
    linear layer there is.

    Raises:
        UserError: Where none of these, or more than one, names a layer; it lists the candidates.
    """
    wrapper = next(_wrapper_prefixes(model), None)
    if wrapper is not None:
        return wrapper + find_classifier(model.get_submodule(wrapper[:-1]))
    linears = dict(_linears(model))
    for find in (_from_timm, _from_usual_names, _from_sequential):
        names = sorted({name for name in find(model, linears) if name in linears})
        if len(names) == 1:
            return names[0]
        if names:
            raise _cannot_tell(model, names, linears)
    if len(linears) == 1:
        return next(iter(linears))
    raise _cannot_tell(model, [], linears)


def attach(
    model: M, head: str | type[nn.Module] = "sem", *, at: str | None = None, **options: object
) -> M:
    """Replace a model's classifier by a head, in place, and return the model.

    Heads that have a linear layer's parameters (all but the KAN heads) keep **the very same
    parameter objects**, so that an optimiser built before stays valid. The KAN heads have
    parameters of their own and start afresh: build the optimiser after attaching.

    Args:
        model: Any module: own, timm, torchvision, transformers, a plain ``nn.Sequential``, or one
            wrapped for distribution or compilation.
        head: A name of :data:`edgemask.heads.HEADS`, or a class with ``nn.Linear``'s signature.
        at: The dotted name of the layer to replace. Default: :func:`find_classifier` finds it.
        options: Options of the head, such as ``rho=0.3``.

    Returns:
        The model (where the model itself is a linear layer, the new head).

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> type(attach(model, "sem", rho=0.3)[-1]).__name__
        'SEMLinear'
    """
    from edgemask.heads import HEADS

    kind = HEADS[head] if isinstance(head, str) else head
    old = _checked_layer(model, find_classifier(model) if at is None else at)
    try:
        new = replace_by(kind, old, options)
    except TypeError as error:
        raise UserError(f"the head {head!r} does not take these options: {error}") from None
    return _swap(model, old, new)


def detach(model: M) -> M:
    """Put plain layers back in place of all heads, in place, and return the model.

    Heads with a linear layer's parameters become :class:`torch.nn.Linear` with the same parameter
    objects; with ``inference="expected"`` the expectation is worked into new weights, so that the
    plain layer predicts what the head did. A masked KAN head becomes a plain KAN layer.

    Example:
        >>> type(detach(attach(nn.Sequential(nn.Linear(4, 2)), "sem"))[0]).__name__
        'Linear'
    """
    for _, module in list(model.named_modules()):
        plain = getattr(module, "to_plain", None)
        if callable(plain):
            model = _swap(model, module, plain())
    return model


def replace_by(kind: type[nn.Module], old: nn.Linear, options: dict[str, object]) -> nn.Module:
    """Build a head in the place of a linear layer: same size, same parameters, same mode.

    Nothing is drawn from the global random state of torch for heads that keep the parameters.
    """
    keeps = issubclass(kind, nn.Linear)
    new: nn.Module = kind(
        old.in_features,
        old.out_features,
        old.bias is not None,
        **options,
        device="meta" if keeps else old.weight.device,
        dtype=old.weight.dtype,
    )
    if isinstance(new, nn.Linear):
        new.weight = old.weight
        new.bias = old.bias
        reset = getattr(new, "reset_state", None)
        if callable(reset):
            reset(seed=options.get("seed"))
    return new.train(old.training)


def _linears(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    seen: set[int] = set()
    for name, module in model.named_modules():
        # MultiheadAttention's output projection is an nn.Linear that only looks like a layer
        inner = type(module).__name__ == "NonDynamicallyQuantizableLinear"
        if isinstance(module, nn.Linear) and not inner and id(module) not in seen:
            seen.add(id(module))
            yield name, module


def _from_timm(model: nn.Module, linears: dict[str, nn.Linear]) -> Iterator[str]:
    get = getattr(model, "get_classifier", None)
    found = get() if callable(get) else ()
    layers = found if isinstance(found, (tuple, list)) else (found,)
    for name, linear in linears.items():
        if any(linear is layer for layer in layers):
            yield name


def _from_usual_names(model: nn.Module, linears: dict[str, nn.Linear]) -> Iterator[str]:
    labels = getattr(getattr(model, "config", None), "num_labels", None)
    for name in _USUAL_NAMES:
        below = [other for other in linears if other == name or other.startswith(f"{name}.")]
        if len(below) > 1 and labels is not None:
            below = [other for other in below if linears[other].out_features == labels] or below
        if below:
            yield below[-1]


def _from_sequential(model: nn.Module, linears: dict[str, nn.Linear]) -> Iterator[str]:
    name = ""
    while isinstance(model, nn.Sequential) and len(model):
        last, model = list(model.named_children())[-1]
        name = f"{name}.{last}" if name else last
    yield name


def _checked_layer(model: nn.Module, at: str) -> nn.Linear:
    for prefix in ("", *_wrapper_prefixes(model)):
        try:
            module = model.get_submodule(prefix + at)
        except AttributeError:
            continue
        break
    else:
        raise UserError(
            f"at={at!r} names no layer of {type(model).__name__}; {_listed(dict(_linears(model)))}"
        )
    if not isinstance(module, nn.Linear):
        raise UserError(
            f"at={at!r} is a {type(module).__name__}, not a linear layer; "
            f"{_listed(dict(_linears(model)))}"
        )
    if isinstance(module, nn.LazyLinear):
        raise UserError(f"at={at!r} has no size yet: run the model once before attaching a head")
    if parametrize.is_parametrized(module):
        raise UserError(f"at={at!r} is parametrised: remove its parametrisations first")
    return module


def _wrapper_prefixes(model: nn.Module) -> Iterator[str]:
    """Yield the dotted names, each with its dot, of what a model wraps, from the outside in."""
    prefix = ""
    while len(model._modules) == 1 and (name := next(iter(model._modules))) in _WRAPPED:
        prefix += f"{name}."
        model = model.get_submodule(name)
        yield prefix


def _cannot_tell(model: nn.Module, names: list[str], linears: dict[str, nn.Linear]) -> UserError:
    which = f"more than one layer may be meant ({', '.join(names)})" if names else "none stands out"
    return UserError(
        f"cannot tell which layer of {type(model).__name__} is the classifier: {which}. Name it "
        f"with at='...'; {_listed(linears)}"
    )


def _listed(linears: dict[str, nn.Linear]) -> str:
    if not linears:
        return "the model has no linear layer"
    shown = [
        f"{n or '(the model itself)'} ({m.in_features} -> {m.out_features})"
        for n, m in linears.items()
    ]
    more = len(shown) - 30
    return "its linear layers: " + ", ".join(shown[:30]) + (f" and {more} more" if more > 0 else "")


def _swap(model: M, old: nn.Module, new: nn.Module) -> M:
    """Put ``new`` wherever ``old`` stands, under all its names, with its hooks."""
    for hooks in _HOOKS:
        if hooks in old.__dict__:
            new.__dict__[hooks] = old.__dict__[hooks]
    if model is old:
        return new  # type: ignore[return-value]
    for parent in list(model.modules()):
        for name in [name for name, child in parent._modules.items() if child is old]:
            setattr(parent, name, new)
    return model
