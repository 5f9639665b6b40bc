"""The accuracy policy as data: the numbers of configs/accuracy.yaml, which verifier and leaf contract share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from septran import spanyaml
from septran.assets import find
from septran.errors import ConfigError, closest

_FILE = "configs/accuracy.yaml"
# the tables of the file: their keys, all of them needed
_TABLES = {
    "unit_roundoff": ("float64", "float32"),
    "matrix_unit": ("per_step", "terms"),
    "winograd": ("constant", "per_sqrt"),
    "softmax": ("constant", "per_distance", "per_sqrt"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How far a correct result may be from float64; docs/verification.md explains each number."""

    unit_roundoff: Mapping[str, float]
    zero_mean_coefficient: float
    same_sign_coefficient_per_sqrt: float
    matrix_unit: Mapping[str, float]
    softmax: Mapping[str, float]
    winograd: Mapping[str, float]
    probe_coefficient: float
    probe_per_sqrt: float
    torch_error_factor: float
    probes: int


def load_policy() -> Policy:
    """Return the policy the asset layers give.

    Raises:
        ConfigError: C020 an unknown or missing key, C021 something else than a positive number.
    """
    doc = spanyaml.load(find(_FILE).path)

    def wrong(code: str, message: str, *path: str | int) -> ConfigError:
        return ConfigError.of(code, f"accuracy policy: {message}", doc.span(*path))

    def keys(value: object, known: tuple[str, ...], *path: str) -> dict[str, object]:
        if not isinstance(value, dict):
            raise wrong("C021", "a mapping is needed here", *path)
        for key in value:
            if key not in known:
                raise wrong("C020", f"unknown key {key!r}{closest(str(key), known)}", *path, key)
        for key in known:
            if key not in value:
                raise wrong("C020", f"key {key!r} is missing", *path)
        return value

    def number(value: object, *path: str) -> None:
        whole = path[-1] == "probes"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise wrong("C021", f"{path[-1]} must be a number, found {value!r}", *path)
        if value <= 0:
            raise wrong("C021", f"{path[-1]} must be above 0, found {value!r}", *path)

    data = keys(doc.value, tuple(f.name for f in fields(Policy)))
    for name, value in data.items():
        if name in _TABLES:
            for key, entry in keys(value, _TABLES[name], name).items():
                number(entry, name, key)
        else:
            number(value, name)
    return Policy(**data)  # type: ignore[arg-type]  # each was just looked at
