"""Files that leave: never over what was read, nor over what is not ours to replace; whole, or not at all."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rephaze.errors import FileError, SpecError

_NUM_PROBED_BYTES = 512
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileKind:
    """What a command writes, and by what a file that is there already is known to be of that kind."""

    name: str
    """As in ``is not an HTML page``."""
    starts: tuple[bytes, ...]
    """How such files begin, unpacked, in lower case and without white space."""
    endings: tuple[str, ...] = ()
    """How their names must end; empty: in any way."""
    makes_folder: bool = False
    """Whether the folder is made if it is not there; else that is a slip."""


HTML_PAGE = FileKind(
    name="an HTML page", starts=(b"<!doctypehtml", b"<html"), endings=(".html", ".htm"), makes_folder=True
)

MARKDOWN_PAGE = FileKind(name="a page in Markdown", starts=(b"#",), endings=(".md",), makes_folder=True)


def check_folder(out: Path) -> None:
    """Raise unless ``out`` is a folder, or may be made one."""
    try:
        first = next(path for path in (out, *out.absolute().parents) if path.exists())
    except (OSError, ValueError):
        raise FileError(f"{str(out)[:80]}: cannot be a folder's name") from None
    if not first.is_dir():
        raise FileError(f"{out}: cannot be a folder: {first} is a file; name another")


def check_output(out: Path, kind: FileKind, reads: Iterable[str | Path] = ()) -> None:
    """Raise unless ``out`` may be written: asked before the work, so that a slip costs nothing.

    Args:
        out: File to write.
        kind: What will be in it.
        reads: Files the command reads; names that are no files do no harm.
    """
    _target(out, kind, reads)


@contextmanager
def whole_file(out: Path, kind: FileKind, reads: Iterable[str | Path] = ()) -> Iterator[Path]:
    """A path to write to, renamed to ``out`` when the block ends well and deleted when it does not.

    Raises:
        FileError: ``out`` is read by the command, is a file of another kind, a folder, or cannot be written.
    """
    target = _target(out, kind, reads)
    try:
        if target.exists() and not target.is_file():
            yield target  # a pipe or device cannot be renamed over
            return
        if kind.makes_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
        try:
            yield part
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"{out}: cannot be written ({error.strerror or error})") from None


def write_whole(out: Path, content: str | bytes, kind: FileKind, reads: Iterable[str | Path] = ()) -> None:
    """Write a file under the rules of ``whole_file``."""
    with whole_file(out, kind, reads) as path:
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def _target(out: Path, kind: FileKind, reads: Iterable[str | Path]) -> Path:
    """Where ``out`` leads, through links: their target is replaced, not they."""
    try:
        target = out.resolve()
        if target.is_dir():
            raise FileError(f"{out}: is a folder; name a file")
        for read in reads:
            if _is_same(target, Path(read)):
                raise FileError(f"{out}: is read by this command; name another file")
        if target.exists() and not target.is_file():
            return target
        if kind.endings and not out.name.lower().endswith(kind.endings):
            raise SpecError("out", str(out), f"must end in {' or '.join(kind.endings)}")
        if not kind.makes_folder and not target.parent.is_dir():
            raise FileError(f"{out}: cannot be written (its folder does not exist)")
        if target.is_file() and target.stat().st_size and not _is_of(target, kind):
            raise FileError(f"{out}: is there and is not {kind.name}; remove it or name another file")
    except (OSError, ValueError) as error:
        if isinstance(error, FileError | SpecError):
            raise
        said = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"{str(out)[:80]}: cannot be written ({said})") from None
    return target


def _is_same(target: Path, read: Path) -> bool:
    try:
        return read.resolve() == target or (target.exists() and read.exists() and read.samefile(target))
    except (OSError, ValueError):
        return False  # no path at all, such as the name of a model


def _is_of(path: Path, kind: FileKind) -> bool:
    with path.open("rb") as file:
        begun = file.read(_NUM_PROBED_BYTES)
    if begun.startswith(_GZIP):
        try:
            with gzip.open(path) as packed:
                begun = packed.read(_NUM_PROBED_BYTES)
        except (OSError, EOFError, zlib.error):
            return False
    return b"".join(begun.split()).lower().startswith(kind.starts)
