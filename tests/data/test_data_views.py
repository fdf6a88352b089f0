"""Views: crops and flips against loops, the statistics of the policies, the recipes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from edgemask._random import torch_stream
from edgemask.data import Loader, from_arrays, load, views
from edgemask.data.augment.basic import CutOut, FeatureJitter, Flip, PadCrop
from edgemask.data.augment.ops import OPERATIONS
from edgemask.data.augment.policies import (
    AutoAugment,
    ColourJitter,
    RandAugment,
    RandomOperations,
    RandomRotation,
    sub_policies,
)
from edgemask.data.images import Fit, _inception_window
from edgemask.errors import UserError
from sweeps import sweep

ALL_STEPS = [
    PadCrop(4), Flip(), CutOut(8, (1, 2, 3)), AutoAugment(), RandAugment(), RandomOperations(),
    ColourJitter(),
    RandomRotation(),
]  # fmt: skip


def noise(count: int, size: int = 16, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (count, channels, size, size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def within(count: int, total: int, probability: float, sigmas: float = 4.5) -> bool:
    """Whether a binomial count is plausible (one in 150,000 is refused at 4.5 sigma)."""
    spread = (total * probability * (1 - probability)) ** 0.5
    return abs(count - total * probability) <= sigmas * spread + 1e-9


# crop and flip ----------------------------------------------------------------------------------


def test_crops_are_windows_of_the_padded_image() -> None:
    images = noise(500)
    found = PadCrop(2)(images, torch_stream(0))
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
    places = np.zeros((5, 5), int)
    for i in range(500):
        hits = [
            (y, x)
            for y in range(5)
            for x in range(5)
            if np.array_equal(padded[i, :, y : y + 16, x : x + 16], found[i].numpy())
        ]
        assert len(hits) == 1
        places[hits[0]] += 1
    assert all(within(int(c), 500, 1 / 25) for c in places.ravel())


def test_flips_mirror_about_half_of_the_images() -> None:
    images = noise(2000, 4)
    found = Flip()(images, torch_stream(0))
    same = (found == images).flatten(1).all(1)
    mirrored = (found == images.flip(-1)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert within(int(mirrored.sum()), 2000, 0.5)


@sweep("step", ALL_STEPS)
def test_steps_are_pure_functions_of_batch_and_generator(step) -> None:  # type: ignore[no-untyped-def]
    images = noise(64)
    before = torch.random.get_rng_state()
    first = step(images, torch_stream(7))
    assert first.shape == images.shape
    assert first.dtype == torch.uint8
    assert torch.equal(images, noise(64))
    assert torch.equal(first, step(images, torch_stream(7)))
    assert not torch.equal(first, step(images, torch_stream(8)))
    assert torch.equal(before, torch.random.get_rng_state())
    assert step(images[:0], torch_stream(7)).shape == (0, 3, 16, 16)


def test_cutout_covers_one_square_with_the_fill() -> None:
    images = torch.full((200, 3, 32, 32), 255, dtype=torch.uint8)
    found = CutOut(8, (1, 2, 3))(images, torch_stream(0))
    covered = (found[:, 0] == 1) & (found[:, 1] == 2) & (found[:, 2] == 3)
    assert (covered | (found == 255).all(1)).all()
    area = covered.flatten(1).sum(1)
    assert int(area.max()) == 64
    assert int(area.min()) >= 16  # at worst a quarter of it, in a corner


def test_a_hole_on_whole_pixels_against_a_plain_loop() -> None:
    """The cut-out of SOP: rows y - 8 to y + 7 of normalised images become 0 where they exist."""
    images = torch.randn(300, 3, 32, 40, generator=torch_stream(1))
    found = CutOut(16, (0, 0, 0), whole=True)(images, torch_stream(5))
    drawn = torch.rand(2, 300, generator=torch_stream(5))
    wanted = images.clone()
    centres = np.zeros(32, int)
    for i in range(300):
        y, x = int(drawn[0, i] * 32), int(drawn[1, i] * 40)
        centres[y] += 1
        for row in range(max(y - 8, 0), min(y + 8, 32)):
            for column in range(max(x - 8, 0), min(x + 8, 40)):
                wanted[i, :, row, column] = 0.0
    assert torch.equal(found, wanted)
    assert all(within(int(count), 300, 1 / 32) for count in centres)


def test_the_strong_view_of_sop_has_its_hole_after_normalisation() -> None:
    bundle = from_arrays(noise(40, 32), np.arange(40) % 2)
    recipe = views.RECIPES["cifar100/sop"]
    constants = recipe.normalisation
    assert constants is not None
    bundle = dataclasses.replace(bundle, recipe="cifar100/sop", normalisation=constants)
    strong, weak = views.build(bundle, "strong"), views.build(bundle, "weak")
    assert [type(step).__name__ for step in strong.steps] == ["AutoAugment", "PadCrop", "Flip"]
    assert [type(step).__name__ for step in weak.steps] == ["PadCrop", "Flip"]
    holes = (strong(noise(200, 32), torch_stream(2)) == 0).all(1)
    # No pixel of 0..255 is normalised to exactly 0, so that zeros are the hole and nothing else.
    area = holes.flatten(1).sum(1)
    assert 64 <= int(area.min()) < int(area.max()) == 256
    assert not (weak(noise(200, 32), torch_stream(2)) == 0).any()


# policies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cifar10", "imagenet"])
def test_the_autoaugment_tables_are_the_published_ones(name: str) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    policy = transforms.AutoAugment(transforms.AutoAugmentPolicy(name))
    ours = {"Color": "colour", "ShearX": "shear_x", "ShearY": "shear_y",
            "TranslateX": "translate_x", "TranslateY": "translate_y"}  # fmt: skip
    assert len(policy.policies) == len(sub_policies(name)) == 25
    for theirs, mine in zip(policy.policies, sub_policies(name), strict=True):
        for (operation, probability, level), (own, p, m) in zip(theirs, mine, strict=True):
            assert (ours.get(operation, operation.lower()), probability) == (own, p)
            assert level is None or level == m


@pytest.mark.parametrize("name", ["cifar10", "imagenet"])
def test_autoaugment_draws_a_sub_policy_for_each_image(name: Any) -> None:
    """One of 25 per image: the pairs of operations are independent, each with its own rate."""
    from edgemask.data.augment import policies

    count = 100_000
    first, second = AutoAugment(name).draw(count, torch_stream(3))
    number = {name: i for i, name in enumerate(policies._NAMES)}
    for place, drawn in enumerate((first, second)):
        for kind in policies._NAMES:
            expected = sum(
                p for n, p, _ in (pair[place] for pair in sub_policies(name)) if n == kind
            )
            assert within(int((drawn.operation == number[kind]).sum()), count, expected / 25), kind
    # neighbours in a batch are independent: equal operations as often as chance has it
    rates = torch.bincount(first.operation + 1).float() / count
    chance = float((rates**2).sum())
    assert within(int((first.operation[1:] == first.operation[:-1]).sum()), count - 1, chance, 6)


def test_the_two_operations_of_a_sub_policy_belong_together() -> None:
    from edgemask.data.augment import policies

    count = 100_000
    first, second = AutoAugment().draw(count, torch_stream(3))
    number = {name: i for i, name in enumerate(policies._NAMES)}
    # sub-policy 22 is the only one that starts with translate_y at the last level
    alone = (first.operation == number["translate_y"]) & (first.magnitude.abs() > 0.4)
    both = alone & (second.operation == number["translate_y"])
    assert within(int(both.sum()), count, 0.9 * 0.7 / 25)
    signs = first.magnitude[alone] > 0
    assert within(int(signs.sum()), len(signs), 0.5)


def test_autoaugment_magnitudes() -> None:
    from edgemask.data.augment import policies

    number = {name: i for i, name in enumerate(policies._NAMES)}
    first, second = AutoAugment().draw(20_000, torch_stream(5))
    found = {
        name: {
            round(abs(v), 3)
            for drawn in (first, second)
            for v in drawn.magnitude[drawn.operation == number[name]].tolist()
        }
        for name in ("posterize", "rotate", "solarize", "shear_y", "contrast")
    }
    assert found["posterize"] == {5.0}  # level 7 of 8..4 bits
    assert found["rotate"] == {6.667}
    assert found["solarize"] == {199.111, 28.444, 113.778, 170.667}
    assert found["shear_y"] == {0.267, 0.233}
    assert found["contrast"] == {1.6, 0.4, 1.7, 0.3}


def test_randaugment_draws_two_operations_half_applied() -> None:
    count = 60_000
    for drawn in RandAugment().draw(count, torch_stream(1)):
        counts = torch.bincount(drawn.operation + 1, minlength=16)
        assert within(int(counts[0]), count, 0.5)
        assert all(within(int(c), count, 0.5 / 15) for c in counts[1:])
        rotations = drawn.magnitude[drawn.operation == 7]
        assert sorted({round(abs(v)) for v in rotations.tolist()}) == list(range(3, 30, 3))
        assert within(int((rotations > 0).sum()), len(rotations), 0.5)
        cut = {round(v, 2) for v in drawn.magnitude[drawn.operation == 14].tolist()}
        assert cut == {round(0.02 * level, 2) for level in range(1, 10)}


def test_rotation_angles_reach_both_ways() -> None:
    images = torch.zeros(400, 1, 33, 33, dtype=torch.uint8)
    images[:, :, 16, 28] = 255  # a mark to the right of the centre
    found = RandomRotation(20)(images, torch_stream(2))
    places = found[:, 0].flatten(1).argmax(1)
    visible = found.flatten(1).amax(1) == 255
    y, x = 16 - places[visible] // 33, places[visible] % 33 - 16
    angles = torch.rad2deg(torch.atan2(y.float(), x.float()))
    assert float(angles.abs().max()) < 24
    assert float(angles.max()) > 14
    assert float(angles.min()) < -14
    assert abs(float(angles.mean())) < 3


def test_colour_jitter_changes_each_image_on_its_own() -> None:
    images = noise(1, 8).expand(50, -1, -1, -1).contiguous()
    found = ColourJitter()(images, torch_stream(0))
    assert len({tuple(x.flatten().tolist()) for x in found}) == 50
    still = ColourJitter(strength=0.0, hue=0.0)(images, torch_stream(0))
    assert int((still.int() - images.int()).abs().max()) <= 1


# files ------------------------------------------------------------------------------------------


@sweep("crop", ["center", "random", "resized"])
@sweep("square", [False, True])
@sweep("size", [(300, 180), (180, 300), (40, 40), (7, 500)])
def test_fit_gives_the_size_asked_for(size: tuple[int, int], square: bool, crop: str) -> None:
    from PIL import Image

    image = Image.new("RGB", size, (9, 8, 7))
    for resize in (None, 73):
        fit = Fit(64, resize, square=square, crop=crop)  # type: ignore[arg-type]
        found = fit(image, torch_stream(0))
        assert found.shape == (3, 64, 64)
        assert found[:, 5, 5].tolist() == [9, 8, 7]
        assert int(found.min()) == 7  # nothing from outside the image


def test_random_fit_covers_the_image_and_center_fit_its_middle() -> None:
    from PIL import Image

    ramp = np.tile(np.arange(100, dtype=np.uint8), (100, 1))
    image = Image.fromarray(np.stack([ramp, ramp.T, ramp], axis=-1))
    random = [Fit(60, 100, crop="random")(image, torch_stream(i))[:2, 0, 0] for i in range(200)]
    corners = torch.stack(random).int()
    assert int(corners.amin(0).max()) < 3
    assert int(corners.min()) >= 0
    assert int(corners.max()) <= 40
    assert int(corners.max()) > 37
    assert Fit(60, 100)(image, torch_stream(0))[:2, 0, 0].tolist() == [20, 20]


def test_a_resized_crop_may_be_a_single_pixel_wide() -> None:
    found = {_inception_window(2, 2, torch_stream(seed)) for seed in range(200)}
    assert found == {(1, 1), (1, 2), (2, 1), (2, 2)}


# recipes ----------------------------------------------------------------------------------------


@sweep("name", views.RECIPES)
def test_recipes_are_complete(name: str) -> None:
    recipe = views.RECIPES[name]
    assert recipe.source
    assert (recipe.mean is None) == (recipe.std is None)
    if recipe.std is not None:
        assert all(0 < value <= 1 for value in recipe.std)


def test_digits_views() -> None:
    bundle = load("digits")
    batch = next(iter(Loader(bundle.train, bundle=bundle, views=views.VIEWS, batch_size=256)))
    none, weak, strong = batch.views
    assert abs(float(none.mean())) < 0.1
    assert abs(float(none.std()) - 1) < 0.1
    mean, std = bundle.normalisation
    pixels = ((weak * std[0] + mean[0]) * 255).round()
    image = ((none * std[0] + mean[0]) * 255).round()
    for a, b in zip(pixels[:50, 0], image[:50, 0], strict=True):
        padded = np.pad(b.numpy(), 1)
        windows = [padded[y : y + 8, x : x + 8] for y in range(3) for x in range(3)]
        assert any(np.array_equal(a.numpy(), window) for window in windows)
    assert not torch.equal(weak, strong)


def test_tabular_views_add_the_documented_jitter() -> None:
    x = np.random.default_rng(0).normal(3, 2, (4000, 5)).astype(np.float32)
    bundle = from_arrays(x, np.arange(4000) % 2, x_test=x[:2], y_test=np.arange(2))
    loader = Loader(bundle.train, bundle=bundle, views=views.VIEWS, batch_size=4000)
    none, weak, strong = next(iter(loader)).views
    assert abs(float((weak - none).std()) - 0.05) < 0.002
    assert abs(float((strong - none).std()) - 0.15) < 0.006
    assert FeatureJitter(0.0)(none, torch_stream(0)).equal(none)


def test_float_images_have_no_strong_view() -> None:
    x = np.random.default_rng(0).random((20, 3, 8, 8)).astype(np.float32)
    bundle = from_arrays(x, np.arange(20) % 2)
    with pytest.raises(UserError, match=r"no strong view.*uint8"):
        views.build(bundle, "strong")
    with pytest.raises(UserError, match="unknown view 'weka'"):
        views.build(bundle, "weka")


def test_random_operations_are_different_and_within_their_strengths():
    count = 4000
    rounds = RandomOperations().draw(count, torch_stream(1))
    assert len(rounds) == 3
    chosen = torch.stack([operation for operation, _ in rounds])
    # No image has an operation twice; each of the 14 comes in 3 of 14 rounds.
    assert all(len(set(column)) == 3 for column in chosen.t().tolist())
    shares = torch.stack([(chosen == number).float().mean() for number in chosen.unique()])
    assert len(shares) == 14
    assert shares.tolist() == pytest.approx([1 / 14] * 14, abs=0.01)
    limits = {
        "rotate": (-30, 30),
        "posterize": (4, 8),
        "brightness": (0.05, 0.95),
        "translate_x": (-0.3, 0.3),
    }
    names = [name for name in OPERATIONS if name != "hue"]
    operation, magnitude = rounds[0]
    for name, (low, high) in limits.items():
        values = magnitude[operation == names.index(name)]
        assert low <= float(values.min()) < low + 0.1 * (high - low) + 1e-3, name
        assert high - 0.1 * (high - low) - 1e-3 < float(values.max()) <= high, name


def test_a_crop_may_mirror_the_edges():
    images = torch.arange(25, dtype=torch.uint8).view(1, 1, 5, 5).repeat(40, 1, 1, 1)
    crops = PadCrop(padding=2, reflect=True)(images, torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(images[:1].float(), (2,) * 4, mode="reflect")[0, 0]
    windows = {
        tuple(padded[top : top + 5, left : left + 5].flatten().int().tolist())
        for top in range(5)
        for left in range(5)
    }
    found = {tuple(crop.flatten().tolist()) for crop in crops}
    assert found <= windows
    assert len(found) > 10


def test_levels_of_randaugment_are_bounded():
    rotate = [name for name in OPERATIONS if name != "hue"].index("rotate")
    for levels, largest in ((9, 27.0), (4, 12.0)):
        drawn, _ = RandAugment(levels=levels).draw(4000, torch_stream(0))
        turns = drawn.magnitude[drawn.operation == rotate].abs()
        assert len(turns.round().unique()) == levels
        assert float(turns.max()) == pytest.approx(largest)
