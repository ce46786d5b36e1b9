"""Print the size of the code: lines, modules, classes that declare fields, modules with one importer, words of docs.

Lines are those of the files, with comments and blanks; code lines are without both, and without docstrings.
"""

import ast
import re
import subprocess
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIELD_BASES = re.compile(r"Serializer|Struct|Answer|Parameters|Form\b|Model\b|TypedDict|NamedTuple")


def list_files(*patterns: str) -> list[Path]:
    """Return the committed files of these patterns of git, in order."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines()]


def count_lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def count_code_lines(path: Path) -> int:
    """Return the lines that have code, without comments, blanks and docstrings."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    with path.open("rb") as file:
        lines = {
            line
            for token in tokenize.tokenize(file.readline)
            if token.type not in skipped
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(lines - docstrings - {0})


def declares_fields(node: ast.ClassDef) -> bool:
    """Return whether a class is a dataclass, answer, serializer, struct, form or model with fields of its own."""
    has_fields = any(isinstance(each, ast.AnnAssign | ast.Assign) for each in node.body)
    names = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
    return has_fields and any("dataclass" in name or FIELD_BASES.search(name) for name in names)


def find_importers(paths: list[Path]) -> dict[str, set[str]]:
    """Return module → the modules that import it or a name of it."""
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            imported = []
            if isinstance(node, ast.Import):
                imported = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            for each in imported:
                if each in names and each != name:
                    importers[each].add(name)
    return importers


def main() -> None:
    server = [path for path in list_files("benchapp/*.py") if "migrations" not in path.parts]
    agent = list_files("agent/*.py")
    classes = [
        node
        for path in (*server, *agent)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    importers = find_importers([*server, *agent])
    pages = list_files("templates/*", "static/*.js", "static/*.css")
    words = sum(len(path.read_text().split()) for path in list_files("docs/*.md"))
    for label, figure in (
        ("classes that declare fields", sum(map(declares_fields, classes))),
        (
            "modules of benchapp and agent",
            len([path for path in (*server, *agent) if path.name != "__init__.py"]),
        ),
        ("modules with one importer", sum(len(names) == 1 for names in importers.values())),
        ("lines of Python, benchapp without migrations", count_lines(server)),
        ("lines of code of them", sum(map(count_code_lines, server))),
        ("lines of Python, agent", count_lines(agent)),
        ("lines of JavaScript, CSS and templates", count_lines(pages)),
        ("lines of Python, tests", count_lines(list_files("tests/*.py"))),
        ("pages of docs", len(list_files("docs/*.md"))),
        ("words of docs", words),
    ):
        print(f"{figure:>8} {label}")


if __name__ == "__main__":
    main()
