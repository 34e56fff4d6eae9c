# SPDX-License-Identifier: Apache-2.0
"""Images of other sizes, or read at places that a grid says; channels as pixels and back."""

import torch
import torch.nn.functional as F

from sambaflow._core import ffi, lib
from sambaflow.samba.rules.common import each, rank
from sambaflow.samba.trace import rule

# torch's word -> the library's mode, and the dims of space that the word is of
_MODES = {
    "nearest": (lib.SAMBA_RESAMPLE_NEAREST, (1, 2, 3)),
    "nearest-exact": (lib.SAMBA_RESAMPLE_NEAREST_EXACT, (1, 2, 3)),
    "linear": (lib.SAMBA_RESAMPLE_LINEAR, (1,)),
    "bilinear": (lib.SAMBA_RESAMPLE_LINEAR, (2,)),
    "trilinear": (lib.SAMBA_RESAMPLE_LINEAR, (3,)),
    "bicubic": (lib.SAMBA_RESAMPLE_BICUBIC, (2,)),
    "area": (lib.SAMBA_RESAMPLE_AREA, (1, 2, 3)),
}


@rule(F.interpolate)
def interpolate(
    t, input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False
):
    spatial = rank(input) - 2
    if mode not in _MODES or spatial not in _MODES[mode][1]:
        raise ValueError(f"expected a mode of {', '.join(_MODES)} that suits {spatial} dims of space, given {mode!r}")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"align_corners is of linear and cubic modes, given for {mode!r}")
    options = ffi.new("samba_interpolate_options *", {"mode": _MODES[mode][0]})
    options.align_corners, options.antialias = bool(align_corners), antialias
    options.recompute_scale_factor = bool(recompute_scale_factor)
    for name, given in (("size", size), ("scale_factor", scale_factor)):
        numbers = [] if given is None else [given] * spatial if isinstance(given, float) else each(given, spatial)
        if given is not None and (len(numbers) != spatial or not all(n > 0 for n in numbers)):
            raise ValueError(f"expected one positive number or {spatial} for {name}, given {given}")
        for i, number in enumerate(numbers):
            getattr(options, name)[i] = number
    return t.wrap(lib.samba_interpolate(t.value(input), options))


_GRID_MODES = {
    "bilinear": lib.SAMBA_RESAMPLE_LINEAR,
    "nearest": lib.SAMBA_RESAMPLE_NEAREST,
    "bicubic": lib.SAMBA_RESAMPLE_BICUBIC,
}
_GRID_PADDINGS = {"zeros": lib.SAMBA_GRID_ZEROS, "border": lib.SAMBA_GRID_BORDER, "reflection": lib.SAMBA_GRID_REFLECTION}


@rule(F.grid_sample)
def grid_sample(t, input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    for name, given, known in (("mode", mode, _GRID_MODES), ("padding_mode", padding_mode, _GRID_PADDINGS)):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, given {given!r}")
    return t.wrap(
        lib.samba_grid_sample(t.value(input), t.value(grid), _GRID_MODES[mode], _GRID_PADDINGS[padding_mode], bool(align_corners))
    )


@rule(F.affine_grid)
def affine_grid(t, theta, size, align_corners=None):
    return t.wrap(lib.samba_affine_grid(t.value(theta), len(size), list(size), bool(align_corners)))


@rule(torch.pixel_shuffle)
def pixel_shuffle(t, input, upscale_factor):
    return t.wrap(lib.samba_pixel_shuffle(t.value(input), upscale_factor))


@rule(torch.pixel_unshuffle)
def pixel_unshuffle(t, input, downscale_factor):
    return t.wrap(lib.samba_pixel_unshuffle(t.value(input), downscale_factor))


@rule(torch.channel_shuffle)
def channel_shuffle(t, input, groups):
    return t.wrap(lib.samba_channel_shuffle(t.value(input), groups))
