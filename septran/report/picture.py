"""The picture of a refused proof: a tensor, the tiles that two statements touch, and the element they meet in.

Drawn from a finding's JSON, so that a certificate on disk has it, too. Text takes its colour from the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_COLORS = ("#2f83c5", "#d97a1f", "#2a9d6a", "#8a72d6")
_BAD = "#d03a2f"
_WIDE, _HIGH, _LEAST = 420.0, 240.0, 4.0
"""pixels of a drawing, and of the smallest tile in it"""
_LINE = 18.0


def pictures(finding: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one SVG per buffer of a finding of septran.certificate/1; () when its witness names no tile."""
    tiles: list[Mapping[str, Any]] = list(finding.get("tiles") or ())
    names = list(dict.fromkeys(str(t["buffer"]) for t in tiles))
    element = tuple(finding.get("element") or ())
    drawn = []
    for at, name in enumerate(names):
        mine = [t for t in tiles if t["buffer"] == name]
        meant = element if at == 0 and len(element) == len(mine[0]["shape"]) else ()
        drawn.append(_picture(name, mine, meant))
    return tuple(drawn)


def _picture(name: str, tiles: Sequence[Mapping[str, Any]], element: tuple[int, ...]) -> str:
    shape = [int(n) for n in tiles[0]["shape"]]
    boxes = [_last_two(t["offset"], _reach(t)) for t in tiles]
    rows, cols = _last_two(shape, shape)[2:]
    whole = (0, 0, rows, cols)
    points = [whole, *boxes]
    if element:
        y, x = _last_two(element, element)[:2]
        points.append((y, x, 1, 1))
    top, left = min(b[0] for b in points), min(b[1] for b in points)
    high = max(b[0] + b[2] for b in points) - top
    wide = max(b[1] + b[3] for b in points) - left
    sx, sy = min(_WIDE / wide, 40.0), min(_HIGH / high, 40.0)

    def box(b: tuple[int, int, int, int]) -> str:
        w, h = max(_LEAST, b[3] * sx), max(_LEAST, b[2] * sy)
        return f'x="{10 + (b[1] - left) * sx:.1f}" y="{30 + (b[0] - top) * sy:.1f}" width="{w:.1f}" height="{h:.1f}"'

    parts = [
        f'<text x="10" y="18" font-weight="600">{escape(f"{name}{shape}")}</text>',
        f'<rect {box(whole)} fill="none" stroke="currentColor" stroke-opacity="0.6"/>',
    ]
    for color, b in zip(_COLORS, boxes, strict=False):
        parts.append(
            f'<rect {box(b)} fill="{color}" fill-opacity="0.28" stroke="{color}" stroke-width="1.5"/>'
        )
    if element:
        at = box((y, x, 1, 1))
        parts.append(f'<rect {at} fill="{_BAD}" stroke="{_BAD}" stroke-width="3" rx="1"/>')
    down = 30 + max(_LEAST, high * sy) + 8
    for color, t in zip(_COLORS, tiles, strict=False):
        down += _LINE
        parts.append(f'<rect x="10" y="{down - 10:.1f}" width="11" height="11" fill="{color}"/>')
        parts.append(f'<text x="28" y="{down:.1f}">{escape(_says(t))}</text>')
    if element:
        down += _LINE
        parts.append(f'<rect x="10" y="{down - 10:.1f}" width="11" height="11" fill="{_BAD}"/>')
        outside = any(not 0 <= i < n for i, n in zip(element, shape, strict=True))
        where = ", outside" if outside else ""
        parts.append(
            f'<text x="28" y="{down:.1f}">{escape(f"element {list(element)}{where}")}</text>'
        )
    lines = [_says(t) for t in tiles]
    across = max(_WIDE + 20, 40 + 6.6 * max(len(x) for x in lines))
    label = escape(f"{name}: {'; '.join(lines)}", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {down + 10:.0f}" width="{across:.0f}" role="img" aria-label="{label}" '
        f'font-family="sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _reach(tile: Mapping[str, Any]) -> list[int]:
    """Return how far a tile goes, steps included."""
    return [max(0, (n - 1) * s + 1) for n, s in zip(tile["extent"], tile["step"], strict=True)]


def _last_two(first: Sequence[int], size: Sequence[int]) -> tuple[int, int, int, int]:
    """Return (row, column, rows, columns) of the last two dims; one dim is a row."""
    y, x = ([0, 0, *first])[-2:]
    rows, cols = ([1, 1, *size])[-2:]
    return int(y), int(x), int(rows), int(cols)


def _says(tile: Mapping[str, Any]) -> str:
    parts = zip(tile["offset"], tile["extent"], tile["step"], strict=True)
    if min(tile["extent"], default=1) < 1:
        return f"{tile['statement']} {tile['does']} nothing, at {list(tile['offset'])}"
    index = ", ".join(f"{o}:{o + n * s}{f':{s}' if s > 1 else ''}" for o, n, s in parts)
    return f"{tile['statement']} {tile['does']} [{index}]"
