"""Put heads in place of any model's linear layers, the classifier first of all, and undo it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrize

from edgemask._random import stream
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.heads.adapters import (
    HEAD_NAME,
    inner_linear,
    is_adapter,
    is_masked,
    mask_adapter,
    unmask_adapter,
)

__all__ = ["attach", "detach", "find_classifier", "plain_state_dict", "replace_by"]

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
    names = _find_classifiers(model)
    if len(names) > 1:
        raise _cannot_tell(model, names, dict(_linears(model)))
    return names[0]


def attach(
    model: M,
    head: str | Callable[..., nn.Module] = "sem",
    *,
    at: str | Sequence[str] | None = None,
    **options: object,
) -> M:
    """Replace a model's classifier, or the linear layers named, by heads; return the model.

    Heads that have a linear layer's parameters (all but the KAN heads) keep **the very same
    parameter objects**, so that an optimiser built before stays valid. The KAN heads have
    parameters of their own and start afresh: build the optimiser after attaching.

    Several layers make their steps together, and each head has a seed of its own, which depends on
    ``seed=`` if that is given.

    Args:
        model: Any module: own, timm, torchvision, transformers, a plain ``nn.Sequential``, or one
            wrapped for distribution or compilation.
        head: A name of :data:`edgemask.heads.HEADS`, a class with ``nn.Linear``'s signature, or a
            function of ``(in_features, out_features, bias)`` that makes one.
        at: The dotted name of the layer to replace, or a list of names and patterns such as
            ``["blocks.*.mlp.fc2", "head"]``. A ``*`` stands for any characters, dots included.
            Default: :func:`find_classifier` finds it; timm's distilled models have two.
        options: Options of the head, such as ``rho=0.3``.

    Returns:
        The model (where the model itself is a linear layer, the new head).

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        >>> type(attach(model, "sem", rho=0.3)[-1]).__name__
        'SEMLinear'
        >>> sum(type(m).__name__ == "SEMLinear" for m in attach(model, "sem", at=["*"]))
        2
    """
    from edgemask.heads import HEADS

    kind = HEADS[head] if isinstance(head, str) else head
    names = _find_classifiers(model) if at is None else _names_of(model, at)
    layers = list(dict.fromkeys(_checked_layer(model, name) for name in names))
    try:
        heads = [
            replace_by(kind, layer, options | _seed_option(options, place))
            for place, layer in enumerate(layers)
        ]
    except TypeError as error:
        raise UserError(f"the head {head!r} does not take these options: {error}") from None
    for old, new in zip(layers, heads, strict=True):
        if isinstance(old, nn.Linear):
            model = _swap(model, old, new)
        else:
            mask_adapter(old, new)
    _watch_reset_classifier(model, heads)
    return model


def detach(model: M) -> M:
    """Put plain layers back in place of all heads, in place, and return the model.

    Heads with a linear layer's parameters become :class:`torch.nn.Linear` with the same parameter
    objects; with ``inference="expected"`` the expectation is worked into new weights, so that the
    plain layer predicts what the head did. A masked KAN head becomes a plain KAN layer.

    Example:
        >>> type(detach(attach(nn.Sequential(nn.Linear(4, 2)), "sem"))[0]).__name__
        'Linear'
    """
    for module in list(model.modules()):
        if is_masked(module):
            unmask_adapter(module)
    for module in list(model.modules()):
        if _has_plain_form(module):
            model = _swap(model, module, module.to_plain())  # type: ignore[operator]
        if _watches_reset_classifier(module):
            del module.__dict__["reset_classifier"]
    return model


def plain_state_dict(model: nn.Module) -> dict[str, Any]:
    """Return the state dict that the model would have after :func:`detach`; change nothing.

    It has no scores, step counts or seeds, so that it loads with ``strict=True`` into a model that
    has plain linear layers. To resume training with the same masks, save ``model.state_dict()``.

    Example:
        >>> model = attach(nn.Sequential(nn.Linear(4, 2)), "sem")
        >>> sorted(plain_state_dict(model))
        ['0.bias', '0.weight']
    """
    state: dict[str, Any] = model.state_dict()
    of_adapters = [m._modules[HEAD_NAME] for m in model.modules() if is_masked(m)]
    for name, module in model.named_modules(remove_duplicate=False):
        if not _has_plain_form(module):
            continue
        prefix = f"{name}." if name else ""
        plain: Mapping[str, Tensor] = {}
        if not any(module is head for head in of_adapters):
            plain = module.to_plain().state_dict(prefix=prefix)
        for key in module.state_dict(prefix=prefix):
            if key not in plain:
                state.pop(key, None)
        state.update(plain)
    return state


def replace_by(kind: Callable[..., nn.Module], old: Any, options: dict[str, object]) -> nn.Module:
    """Build a head in the place of a linear layer: same size, same parameters, same mode.

    Nothing is drawn from the global random state of torch for heads that keep the parameters.
    """
    if is_adapter(old):
        new = replace_by(kind, inner_linear(old), options)
        if isinstance(new, nn.Linear):
            return new
        raise UserError(
            f"{type(new).__name__} has parameters of its own, which cannot take the place of those "
            f"of an adapter ({_class_path(old)}): choose another head, or merge the adapter first"
        )
    keeps = inspect.isclass(kind) and issubclass(kind, nn.Linear)
    place = {"device": "meta" if keeps else old.weight.device, "dtype": old.weight.dtype}
    if inspect.isclass(kind):
        options = options | place
    new = kind(old.in_features, old.out_features, old.bias is not None, **options)
    if not inspect.isclass(kind):
        new = new.to(old.weight)
    if isinstance(new, nn.Linear):
        new.weight = old.weight
        new.bias = old.bias
        reset = getattr(new, "reset_state", None)
        if callable(reset):
            reset(seed=options.get("seed"))
    return new.train(old.training)


def _has_plain_form(module: nn.Module) -> bool:
    return callable(getattr(module, "to_plain", None))


def _seed_option(options: Mapping[str, object], place: int) -> dict[str, object]:
    """Return the seed of one of several heads: that of the first one is the seed given."""
    seed = options.get("seed")
    if place == 0 or not isinstance(seed, int):
        return {}
    return {"seed": stream("masks", seed, place)}


def _watch_reset_classifier(model: nn.Module, heads: Sequence[nn.Module]) -> None:
    """Make timm's ``reset_classifier``, which puts a plain layer in place of a head, warn."""
    heads = [head for head in heads if _has_plain_form(head)]
    for module in model.modules():
        if hasattr(type(module), "reset_classifier") and any(
            part is head for part in module.modules() for head in heads
        ):
            module.__dict__["reset_classifier"] = partial(_reset_classifier, module)


def _watches_reset_classifier(module: nn.Module) -> bool:
    method = module.__dict__.get("reset_classifier")
    return isinstance(method, partial) and method.func is _reset_classifier


def _reset_classifier(module: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the class's own ``reset_classifier`` and warn if it took a head away."""
    before = {name: part for name, part in module.named_modules() if _has_plain_form(part)}
    result = type(module).reset_classifier(module, *args, **kwargs)
    after = list(module.modules())
    lost = [name for name, head in before.items() if not any(part is head for part in after)]
    if lost:
        warnings.warn(
            f"reset_classifier replaced the head {', '.join(lost)} of {type(module).__name__} by a "
            "plain layer, which masks nothing: call edgemask.attach again",
            EdgeMaskWarning,
            stacklevel=2,
        )
    return result


def _find_classifiers(model: nn.Module) -> list[str]:
    wrapper = next(_wrapper_prefixes(model), None)
    if wrapper is not None:
        inner = _find_classifiers(model.get_submodule(wrapper[:-1]))
        return [wrapper + name for name in inner]
    linears = dict(_linears(model))
    names = _from_timm(model, linears)
    if names:
        return names
    for find in (_from_usual_names, _from_sequential):
        names = sorted({name for name in find(model, linears) if name in linears})
        if len(names) == 1:
            return names
        if names:
            raise _cannot_tell(model, names, linears)
    if len(linears) == 1:
        return list(linears)
    raise _cannot_tell(model, [], linears)


def _names_of(model: nn.Module, at: str | Sequence[str]) -> list[str]:
    """Return the names of the layers that names and patterns stand for."""
    linears = dict(_linears(model))
    names: list[str] = []
    for asked in [at] if isinstance(at, str) else at:
        if not any(sign in asked for sign in "*?["):
            names.append(asked)
            continue
        patterns = [prefix + asked for prefix in ("", *_wrapper_prefixes(model))]
        found = [name for name in linears if any(fnmatchcase(name, p) for p in patterns)]
        if not found:
            raise UserError(
                f"at={asked!r} matches no linear layer of {type(model).__name__}; "
                f"{_listed(linears)}"
            )
        names += found
    if not names:
        raise UserError(f"at={at!r} names no layer; {_listed(linears)}")
    return names


def _linears(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the linear layers, those that an adapter wraps as the adapter."""
    seen: set[int] = set()
    inside: tuple[str, ...] = ()  # of adapters: their parts are no layers of the model
    for name, module in model.named_modules():
        if id(module) in seen or name.startswith(inside):
            continue
        if is_adapter(module):
            inside += (f"{name}.",)
        elif "original_module" in module._modules and "modules_to_save" in module._modules:
            inside += (f"{name}.original_module",)  # peft trains a copy of this one
        # MultiheadAttention's output projection is an nn.Linear that only looks like a layer
        inner = type(module).__name__ == "NonDynamicallyQuantizableLinear"
        if is_adapter(module) or (isinstance(module, nn.Linear) and not inner):
            seen.add(id(module))
            yield name, module


def _from_timm(model: nn.Module, linears: Mapping[str, nn.Module]) -> list[str]:
    """Return the names of the layers that ``get_classifier`` gives: two for distilled models."""
    get = getattr(model, "get_classifier", None)
    found = get() if callable(get) else ()
    names = []
    for classifier in found if isinstance(found, (tuple, list)) else (found,):
        if isinstance(classifier, nn.Conv2d):
            raise UserError(
                f"the classifier of {type(model).__name__} is a convolution ({classifier}), and a "
                "head takes the place of a linear layer only; name another layer with at='...', or "
                "build the model with a linear classifier"
            )
        inside = list(classifier.modules()) if isinstance(classifier, nn.Module) else []
        held = [name for name, layer in linears.items() if any(layer is part for part in inside)]
        # the last layer of a stack; where two of its size stand side by side, both
        names += [name for name in held if _size(linears[name]) == _size(linears[held[-1]])]
    return names


def _size(layer: nn.Module) -> tuple[object, object]:
    return layer.in_features, layer.out_features


def _from_usual_names(model: nn.Module, linears: Mapping[str, nn.Module]) -> Iterator[str]:
    labels = getattr(getattr(model, "config", None), "num_labels", None)
    for name in _USUAL_NAMES:
        below = [other for other in linears if other == name or other.startswith(f"{name}.")]
        if len(below) > 1 and labels is not None:
            below = [other for other in below if linears[other].out_features == labels] or below
        if below:
            yield below[-1]


def _from_sequential(model: nn.Module, linears: Mapping[str, nn.Module]) -> Iterator[str]:
    name = ""
    while isinstance(model, nn.Sequential) and len(model):
        last, model = list(model.named_children())[-1]
        name = f"{name}.{last}" if name else last
    yield name


def _checked_layer(model: nn.Module, at: str) -> nn.Module:
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
    if is_adapter(module):
        return module
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
    while len(model._modules) == 1:
        name = next(iter(model._modules))
        # peft keeps the model in base_model.model, and says what it has added to it
        of_peft = name in ("base_model", "model") and hasattr(model, "peft_config")
        if name not in _WRAPPED and not of_peft:
            return
        prefix += f"{name}."
        model = model.get_submodule(name)
        yield prefix


def _cannot_tell(model: nn.Module, names: list[str], linears: Mapping[str, nn.Module]) -> UserError:
    which = f"more than one layer may be meant ({', '.join(names)})" if names else "none stands out"
    return UserError(
        f"cannot tell which layer of {type(model).__name__} is the classifier: {which}. Name it "
        f"with at='...'; {_listed(linears)}"
    )


def _class_path(module: nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _listed(linears: Mapping[str, nn.Module]) -> str:
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
