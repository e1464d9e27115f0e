"""The decorators of compiled functions: compiled once a machine, then read from numba's cache beside the source.

With a signature (``compiled``, ``entry``) a function is compiled when its module is imported; without one
(``inner``, ``kernel``) at its first call. Functions only other compiled ones call need no way in from Python, nor
machine code of their own, which halves the time to compile them. Functions that make no arrays
(``inner_in_place``, ``kernel_in_place``) need not count who holds one, which saves another quarter.

Of several processes one compiles a kernel; the others wait and read it from the cache.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite.binding import parse_assembly
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V", int, bool)

type_like: Callable[[object], Any] = numba.typeof
"""The numba type of an example."""
# Its published types leave out the options on wrappers.
_njit: Callable[..., Any] = numba.njit


def compiled(signature: Any) -> Callable[[F], F]:
    """A function other compiled ones call; division by zero gives infinity, which keeps checks out of loops."""
    return _decorator((signature,), error_model="numpy", no_cpython_wrapper=True)


def entry(signature: Any) -> Callable[[F], F]:
    """A compiled function that Python calls; other threads run meanwhile."""
    return _decorator((signature,), error_model="numpy", nogil=True)


def inner(function: F) -> F:
    """As ``compiled``, with whatever types it is first called with."""
    return _decorator((), no_cpython_wrapper=True)(function)


def kernel(function: F) -> F:
    """As ``entry``, with whatever types it is first called with."""
    return _decorator(())(function)


def inner_in_place(function: F) -> F:
    """As ``inner``, of a function that makes no arrays.

    One that gives back views may only be called by others of this kind: they do not count as holders either.
    """
    return _decorator((), error_model="numpy", _nrt=False, no_cpython_wrapper=True)(function)


def kernel_in_place(function: F) -> F:
    """As ``kernel``, of a function that makes no arrays nor gives any back: it fills those it is given."""
    return _decorator((), error_model="numpy", _nrt=False)(function)


def unfolded(value: V) -> V:
    """The number, for calls of compiled functions: they are compiled again for every Python number in a call."""
    made: Any = np.bool_(value) if isinstance(value, bool) else np.int64(value)
    return cast(V, made)


def _decorator(signature: tuple[Any, ...], **options: bool | str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        # numba looks for changes only in the file of a function, not in those of the functions compiled into it:
        # without this in the name of its cache file, it would run old code after an update.
        source = sys.modules[function.__module__].__file__
        assert source is not None
        function.__qualname__ += f"_{_digest_of(Path(source))}"
        is_inner = options.get("no_cpython_wrapper")
        pipeline = _InnerCompiler if is_inner and _IS_TRIED else Compiler
        jit = _njit(*signature, cache=True, no_cfunc_wrapper=True, pipeline_class=pipeline, **options)
        made: F = jit(function)
        if not signature and not is_inner:
            _let_one_process_compile(made)
        return made

    return decorate


# Published types cover only some of their methods.
_Library: Any = JITCodeLibrary
_Compiler: Any = Compiler


class _InnerCode(_Library):  # type: ignore[misc]
    """Code of a function that only other compiled ones call.

    It is optimised, and made machine code, as a part of theirs; numba would do both for it alone, too, with all
    that it calls: anew at each level of calls.
    """

    _final_module: Any

    def _optimize_final_module(self) -> None:
        """Nothing: its functions are simplified one by one, the rest is left to who calls them."""

    def _finalize_final_module(self) -> None:
        """Have only its environments in memory, which numba fills in and callers refer to."""
        whole = self._final_module
        environments = [str(one) for one in whole.global_variables if one.name.startswith(_ENVIRONMENT)]
        layout = f'target datalayout = "{whole.data_layout}"\ntarget triple = "{whole.triple}"'
        self._final_module = parse_assembly("\n".join([layout, *environments]))
        super()._finalize_final_module()
        self._final_module = whole


_IS_TRIED = tuple(numba.__version__.split(".")[:2]) == ("0", "68")
"""Whether this is the numba whose inner workings ``_InnerCode`` was tried with: any other compiles these functions
as all others, which takes a little longer."""
_ENVIRONMENT = "_ZN08NumbaEnv"
"""How numba's names of them begin."""


class _InnerCompiler(_Compiler):  # type: ignore[misc]
    """Makes ``_InnerCode``."""

    def define_pipelines(self) -> Any:
        if self.state.library is None:
            self.state.library = _InnerCode(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


def _let_one_process_compile(kernel: Any) -> None:
    """Workers that start together would else all compile the same for a minute."""
    compile_or_load, folder = kernel.compile, Path(kernel.stats.cache_path)

    def wait_and_compile(signature: Any) -> Any:
        # In this order in every thread: numba takes its own lock in all it compiles.
        with global_compiler_lock, _only_process(folder):
            return compile_or_load(signature)

    kernel.compile = wait_and_compile


_waited_for: list[Path] = []
"""Folders this process has to itself: a kernel may be compiled for another."""


@contextmanager
def _only_process(folder: Path) -> Iterator[None]:
    """While no other process compiles into the folder; at once where the system cannot tell."""
    if fcntl is None or folder in _waited_for:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "compiling.lock").open("w")
    except OSError:  # numba will say what is wrong with the folder, if anything
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _waited_for.append(folder)
        try:
            yield
        finally:
            _waited_for.remove(folder)
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough if a child process has the file too


def _digest_of(source: Path) -> str:
    """Of the file and of all of rephaze it imports, directly or not: what compiled code may be made from."""
    seen: set[Path] = set()
    waiting = [Path(__file__), source]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += _imported_by(file)
    return sha256(b"".join(_text_of(file) for file in sorted(seen))).hexdigest()[:12]


@cache
def _text_of(source: Path) -> bytes:
    return source.read_bytes()


_IMPORT = re.compile(rb"^[ \t]*from[ \t]+rephaze((?:\.\w+)*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def _imported_by(source: Path) -> tuple[Path, ...]:
    """Files of this package that a source names, as modules or as what is imported from a folder."""
    package = Path(__file__).parent
    found: list[Path] = []
    for module, names in _IMPORT.findall(_text_of(source)):
        folder = package.joinpath(*module.decode().split(".")[1:])
        whole = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        parts = [folder / f"{name.decode()}.py" for name in re.findall(rb"\w+", names)] if folder.is_dir() else []
        found += [file for file in (whole, *parts) if file.is_file()]
    return tuple(found)
