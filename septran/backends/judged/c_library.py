"""What C++'s library does with stretches of memory, and its containers."""

from __future__ import annotations

import ast
from dataclasses import replace

from septran.backends.judged.c_flow import Array, CFlow
from septran.backends.judged.values import Pointer, Value
from septran.prove.foreign.launch import NotRead

_BULK = frozenset("fill_n fill memset memcpy copy copy_n accumulate reduce".split())


class LibraryFlow(CFlow):
    """A function that calls the library."""

    def called(self, name: str, args: list[Value], node: ast.Call) -> Value:
        """Follow a call of a function that is not the file's."""
        if name in _BULK:
            return self.bulk(name, args, node)
        return super().called(name, args, node)

    def bulk(self, name: str, args: list[Value], node: ast.Call) -> Value:
        """Follow what fills or copies a stretch of memory."""
        first = self._decayed(args[0])
        if not isinstance(first, Pointer):
            raise NotRead(node.lineno, f"{name}(...) is not read")
        if name == "fill":
            last = self._decayed(args[1])
            count = self.arith.sub(last.at, first.at) if isinstance(last, Pointer) else None
            targets = [("store", first, count)]
        elif name in ("fill_n",):
            targets = [("store", first, self._number(args[1]))]
        elif name in ("memset", "memcpy"):
            bytes_ = self._number(args[2])
            targets = [("store", first, self.arith.divide(bytes_, self.sizes.get(first.memory, 4)))]
            if name == "memcpy":
                second = self._decayed(args[1])
                if not isinstance(second, Pointer):
                    raise NotRead(node.lineno, f"{name}(...) is not read")
                targets.append(
                    ("load", second, self.arith.divide(bytes_, self.sizes.get(second.memory, 4)))
                )
        elif name in ("accumulate", "reduce"):
            last = self._decayed(args[1])
            count = self.arith.sub(last.at, first.at) if isinstance(last, Pointer) else None
            targets = [("load", first, count)]
        else:
            raise NotRead(node.lineno, f"{name}(...) is not read")
        for mode, pointer, count in targets:
            extent = self.arith.constant(count)
            if extent is None:
                raise NotRead(node.lineno, f"how much {name}(...) touches is not known")
            if extent > 0:
                self.touch(mode, replace(pointer, width=extent), node.lineno, self.always)
        return None

    def method(self, node: ast.Call) -> Value:
        """Follow `x.f(...)`."""
        assert isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name):
            value = self.env.get(node.func.value.id)
            if isinstance(value, Array) and node.func.attr in ("data", "begin"):
                return Pointer(value.memory, value.at)
            if isinstance(value, Array) and node.func.attr == "end":
                return Pointer(value.memory, self.arith.add(value.at, value.dims[0]))
            if isinstance(value, Array) and node.func.attr == "size":
                return value.dims[0]
        return super().method(node)
