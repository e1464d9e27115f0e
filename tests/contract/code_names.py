"""Which words of the pages are names of code, and whether there is such code: sources are read, not imported.

A word between single backticks, outside indented and fenced blocks, is a code name if it is

* a path: a ``/`` and no space, such as ``search/engine.py``, ``hardware/data/`` or ``tests/attack``, from the
  root, from ``src`` or from the package; or a bare ``something.py``, wherever it lies; ``area.py: _paper`` in it;
* dotted, such as ``engine.run_best_first`` or ``ChipSolver.solve``: the end of a module's name, then what it
  defines; or a class and its member. Not the names of files (``run.db``), keys of files (``cluster.num_devices``)
  and names of others (``torch.nn.Module``);
* in CamelCase: a class; in CAPITALS, three at least: a constant or a member of an enum; ``test_...``: a test;
* in snake_case or called, such as ``least_time_plan``, ``dims_d``, ``_corrected`` or ``lane_um2()``: a module,
  function, field, argument or variable, or a key or column: a word in some text of the package, or a key of its
  data files.

Nothing else is: commands, options, formats (``rephaze.graph/1``), values and single words mean what the page says.
"""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "tests", "benchmarks", "examples")
FILE_SUFFIXES = {"csv", "css", "db", "gz", "html", "json", "lock", "md", "toml", "txt"}
FILE_SECTIONS = {"cluster", "training"}
"""Of run and problem files: what follows their dot is a key."""
OTHERS = {"torch", "nn", "loss"}

_WORD = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PATH = re.compile(r"[\w.*-]*(/[\w.*-]*)+")
_FORMAT = re.compile(r"[\w.-]+/\d+")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_NAME_IN_FILE = re.compile(r"([\w/]+\.py): (\w+)")
_CAMEL = re.compile(r"_?[A-Z]\w*[a-z]\w*")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_SNAKE = re.compile(r"(?=\w*[a-z])[a-z_]\w*_\w*[a-z0-9]|\w+\(\)")


def words(page):
    """What stands between backticks in a page's running text, in order."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    return _WORD.findall("\n".join(lines))


def is_code_name(word):
    if _FORMAT.fullmatch(word):
        return False
    if _DOTTED.fullmatch(word) and not word.endswith(".py"):
        first, *_, last = word.split(".")
        return last not in FILE_SUFFIXES and first not in FILE_SECTIONS | OTHERS
    kinds = (_PATH, _NAME_IN_FILE, _CAMEL, _CAPITALS, _SNAKE)
    return (word.endswith(".py") and " " not in word) or any(kind.fullmatch(word) for kind in kinds)


def is_found(word):
    """Whether there is code of this name."""
    if inside := _NAME_IN_FILE.fullmatch(word):
        path, name = inside.groups()
        return any(name in _members(tree) for where, tree in _trees().items() if f"/{where}".endswith(f"/{path}"))
    if "/" in word or word.endswith(".py"):
        return _is_path(word)
    if "." in word:
        return _is_dotted(word.split("."))
    if _CAMEL.fullmatch(word):
        return word in _classes()
    if word.startswith("test_"):
        return any(word in _members(tree) for where, tree in _trees().items() if where.startswith("tests/"))
    return word.removesuffix("()") in _vocabulary()


def _is_path(word):
    if "/" not in word:
        return any(where.rsplit("/", 1)[-1] == word for where in _trees())
    return any(any(base.glob(word.rstrip("/"))) for base in (ROOT, ROOT / "src", ROOT / "src" / "rephaze"))


def _is_dotted(parts):
    if len(parts) == 2 and any(parts[1] in _members(own) for own in _classes().get(parts[0], [])):
        return True
    for num_parts in range(1, len(parts) + 1):
        ending = "." + ".".join(parts[:num_parts])
        for where, tree in _trees().items():
            module = "." + where.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if module.endswith(ending) and _has(tree, parts[num_parts:]):
                return True
    return False


def _has(node, parts):
    """Whether a module or class defines the first part, which has the next."""
    if not parts:
        return True
    if parts[0] not in _members(node):
        return False
    own = [item for item in ast.walk(node) if isinstance(item, ast.ClassDef) and item.name == parts[0]]
    return len(parts) == 1 or any(_has(item, parts[1:]) for item in own)


@cache
def _trees():
    found = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in found}


@cache
def _classes():
    """Definitions of classes by name; none for aliases of types."""
    found = {}
    for tree in _trees().values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
            for name in _targets(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
                found.setdefault(name, [])
    return found


@cache
def _members(node):
    """What a module or class binds: in its body; for a class also on ``self`` and in those it derives from."""
    found = set()
    todo = list(node.body)
    while todo:
        item = todo.pop()
        found.update(_targets(item))
        if isinstance(item, ast.If | ast.Try | ast.With):
            todo += [child for child in ast.iter_child_nodes(item) if isinstance(child, ast.stmt)]
    if isinstance(node, ast.ClassDef):
        for item in ast.walk(node):
            if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and _is_self(item.value):
                found.add(item.attr)
        for base in node.bases:
            for parent in _classes().get(getattr(base, "id", ""), []):
                found.update(_members(parent))
    return found


def _is_self(node):
    return isinstance(node, ast.Name) and node.id == "self"


def _targets(node):
    """Names a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {item.id for target in targets if target for item in ast.walk(target) if isinstance(item, ast.Name)}


@cache
def _vocabulary():
    """What the package binds anywhere or uses of others, words of its text (no docstrings), keys of its data."""
    found = set()
    for where, tree in _trees().items():
        if not where.startswith("src/"):
            continue
        found.add(Path(where).stem)
        spoken = set()
        # Breadth first: an expression that stands alone, such as a docstring, comes before its text.
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Expr):
                spoken.add(node.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in spoken:
                found.update(re.findall(r"\w+", node.value))
    for path in (ROOT / "src").rglob("*.toml"):
        found.update(_keys_of(tomllib.loads(path.read_text())))
    return found


def _keys_of(document):
    if isinstance(document, dict):
        return set(document).union(*map(_keys_of, document.values()))
    return set().union(*map(_keys_of, document)) if isinstance(document, list) else set()
