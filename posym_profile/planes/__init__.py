"""Rotation planes of a model, found by moving tokens and checked on every dimension."""

from posym_profile.planes._rotary_planes import Planes, find_planes

__all__ = ["Planes", "find_planes"]
