"""README.md, CONTRIBUTING.md and docs/ against the code: links, blocks of code, commands, and what they name."""

import base64
import json
import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command, get_commands, load_command_class

from agent.commands.cli import build_parser
from benchapp import tasks
from benchapp.catalog.metrics import CATALOG
from benchapp.celery import app
from benchapp.framework.api.problems import PROBLEMS
from benchapp.framework.pages.number_columns import ALSO_ANSWERED, REJECTED
from benchapp.intake.normalize.measurement import MISSING
from benchapp.overview.pages.docs.pages import make_anchor, parse_markdown, read_plain_text
from benchapp.overview.pages.docs.views import read_page
from tests.documentation import FILES, ROOT, Block, Command, list_blocks, list_commands
from tests.envelopes import read_fio
from tests.test_packaging import read_known_variables

TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in FILES}
# CHANGELOG.md is linked, and links itself.
LINKED = {**TEXTS, "CHANGELOG.md": (ROOT / "CHANGELOG.md").read_text()}
LANGUAGES = {"sh", "python", "json", "sql", "text", "http", "filter", "yaml"}
COMMANDS = [command for block in list_blocks("sh") for command in list_commands(block)]
# Programs that a test cannot run here, with the reason. Their lines are parsed.
NOT_RUN = {
    "apt": "installs packages of the system",
    "celery": "tests/test_packaging.py starts the same commands of compose",
    "chmod": "creates secrets of an installation",
    "docker": "needs Docker; `make container-test` runs these commands",
    "duckdb": "no dependency; tests of the export read its Parquet files",
    "export": "sets variables",
    "for": "creates secrets of an installation",
    "git": "changes the checkout; `make container-test` runs these commands",
    "granian": "tests/test_packaging.py starts the same command of compose",
    "install": "creates secrets of an installation",
    "make": "starts servers, installs, or replaces data",
    "printf": "writes settings of an installation",
    "sudo": "installs a service of the system; tests/test_packaging.py checks its unit",
}
# Variables of the reader's shell, in commands.
NOT_SETTINGS = {"BENCHAPP_URL", "BENCHAPP_TOKEN"}


def name_program(command: Command) -> str:
    """Return the program of a command: "manage.py" or "bench-agent" whatever starts it; "" for assignments."""
    words = command.parts[0] if command.parts else [""]
    for name in ("manage.py", "bench-agent.pyz", "bench-agent"):
        if name in words[:2]:
            return name.removesuffix(".pyz")
    return words[0]


def list_anchors(text: str) -> set[str]:
    tokens, anchors = parse_markdown(text), []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            anchors.append(make_anchor(read_plain_text(tokens[place + 1])))
    return set(anchors) | {f"{name}-{n}" for name in anchors for n in range(1, anchors.count(name))}


@pytest.mark.parametrize("file", LINKED)
def test_links_lead_to_a_file_and_a_heading(file: str) -> None:
    links = [
        str(child.attrs.get("href") or child.attrs.get("src"))
        for token in parse_markdown(LINKED[file])
        for child in token.children or ()
        if child.type in ("link_open", "image")
    ]
    wrong = []
    for link in links:
        path, _, anchor = link.partition("#")
        if re.match(r"https?:", link):
            continue
        target = (ROOT / file).parent / path if path else ROOT / file
        is_page = target.suffix == ".md" and target.exists()
        if (
            not target.exists()
            or (anchor and (not is_page or anchor not in list_anchors(target.read_text())))
            or (file.startswith("docs/") and not target.resolve().is_relative_to(ROOT / "docs"))
        ):
            wrong.append(link)

    assert wrong == []


def test_every_block_states_its_language() -> None:
    assert {block.language for block in list_blocks()} == LANGUAGES
    assert sum(text.count("\n```") for text in TEXTS.values()) == 2 * len(list_blocks())


def test_shell_is_parsed_by_bash() -> None:
    text = "\n".join(f"# {block}\n{block.text}" for block in list_blocks("sh"))

    ended = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("block", list_blocks("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    """… stands for further members."""
    text = re.sub(r",\s*…(?=\s*[\]}])", "", block.text)

    assert json.loads(text)


@pytest.mark.parametrize("block", list_blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


def test_every_program_of_a_block_is_run_or_listed_with_a_reason() -> None:
    """manage.py and bench-agent: below; curl, fio and jq: tests/test_ci_gate.py and tests/test_cookbook.py."""
    programs = {name_program(command) for command in COMMANDS} - {""}

    run = {"manage.py", "bench-agent", ".venv/bin/python", "curl", "echo", "fio", "jq"}
    assert programs - run == set(NOT_RUN)


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if name_program(each) == "bench-agent"], ids=str
)
def test_command_of_the_agent_has_its_options(command: Command) -> None:
    words = command.parts[0]
    start = next(place for place, word in enumerate(words) if word.startswith("bench-agent")) + 1

    assert build_parser().parse_args(words[start:]).command == words[start]


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if any("manage.py" in part for part in each.parts)], ids=str
)
def test_command_of_manage_py_has_its_options(command: Command) -> None:
    words = next(part for part in command.parts if "manage.py" in part)
    name, *arguments = words[words.index("manage.py") + 1 :]

    known = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    assert known.parse_args(arguments)


@pytest.mark.parametrize("command", [each for each in COMMANDS if name_program(each) == "make"], ids=str)
def test_target_and_variables_of_make_exist(command: Command) -> None:
    makefile = (ROOT / "Makefile").read_text()
    _, target, *variables = command.parts[0]

    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert all(f"$({each.partition('=')[0]})" in makefile for each in variables)


@pytest.mark.django_db
def test_commands_that_import_files_import_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = read_fio("16_randrw7030_json.out").encode()
    for name in ("results/a.json", "old-results/b.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(output)
    (tmp_path / "old.json.gz").write_bytes(output)
    (tmp_path / "disks-2013.csv").write_text(
        "rw,block_size,volume_type,volume_count,iops\nrandread,4k,standard,4,24490\n"
    )
    monkeypatch.chdir(tmp_path)
    wanted = ("import", "import_study", "renormalize")
    found = [
        words[words.index("manage.py") + 1 :]
        for command in COMMANDS
        if name_program(command) == "manage.py"
        for words in command.parts
    ]

    ended = dict.fromkeys(wanted, 0)
    for name, *arguments in found:
        if name in wanted:
            call_command(name, *arguments, **({} if name == "renormalize" else {"verbosity": 0}))
            ended[name] += 1

    from benchapp.models import Run

    assert ended == {"import": 2, "import_study": 1, "renormalize": 2}
    assert Run.objects.count() >= 3


def test_reader_of_the_documentation_verifies_a_webhook() -> None:
    from benchapp.notices.channels.posting import sign

    (block,) = [each for each in list_blocks("python") if each.file == "docs/notifications.md"]
    names: dict = {}
    exec(block.text, names)
    secret, body = "whsec_" + base64.b64encode(b"k" * 32).decode(), b'{"type": "test"}'
    headers = {"webhook-id": "msg_1", "webhook-timestamp": "1795262400"}
    headers["webhook-signature"] = sign(secret, "msg_1", timestamp_s=1795262400, body=body)

    assert names["is_genuine"](headers, body, secret)
    assert not names["is_genuine"](headers, body + b" ", secret)


def test_settings_that_are_named_exist() -> None:
    """That every setting is documented: tests/test_packaging.py."""
    named = {name for text in TEXTS.values() for name in re.findall(r"\bBENCHAPP_[A-Z_]+[A-Z]\b", text)}

    assert len(named) > 30
    known = read_known_variables()
    for name in ("docker-compose.yml", "tests/stack.py"):
        known |= set(re.findall(r"\bBENCHAPP_[A-Z_]+", (ROOT / name).read_text()))
    assert {each.removesuffix("_FILE") for each in named - known} - known == NOT_SETTINGS


def test_management_commands_are_documented_and_those_that_are_named_exist() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"manage\.py ([a-z_]+)", text)}
    own = {name for name, app in get_commands().items() if app == "benchapp"}

    assert own - named == set()
    assert named - set(get_commands()) == set()


def test_metrics_of_the_catalog_are_documented() -> None:
    text = TEXTS["docs/numbers.md"]
    percentiles = {name for name in CATALOG if re.search(r"_p\d", name)}

    rows = set(re.findall(r"`([a-z_0-9]+)`", "".join(re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE))))
    assert rows - percentiles == set(CATALOG) - percentiles
    assert rows & percentiles == {"latency_p50_ns", "latency_p99_9_ns"}


def test_codes_of_rejections_that_are_named_exist() -> None:
    rejected = TEXTS["docs/reading.md"].partition("## Errors")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", rejected))

    assert len(named) > 3
    assert named <= set(REJECTED)


def test_page_of_error_codes_lists_problems_rejections_and_missing_values() -> None:
    """The meaning of every problem: tests/framework/api/test_problems.py."""
    page = read_page("errors")
    assert page is not None
    sections = {"answers", "rejections", "missing"}
    # The pages of uploads link rejections by their codes.
    assert page.anchors - sections == {*PROBLEMS, *REJECTED, *(f"missing-{code}" for code in MISSING)}
    assert PROBLEMS.keys() & REJECTED.keys() == ALSO_ANSWERED


def test_variables_of_the_agent_are_documented_and_exist() -> None:
    named = set(re.findall(r"`(BENCH_AGENT_\w+)`", TEXTS["docs/agent.md"]))
    known = set(re.findall(r"^  (BENCH_AGENT_\w+)", build_parser().format_help(), re.MULTILINE))

    assert named == known


def test_celery_tasks_are_documented_and_those_that_are_named_exist() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"\btasks\.([a-z_]+)", text)} - {"py"}
    table = TEXTS["ARCHITECTURE.md"].partition("## Tasks")[2].partition("\n## ")[0]
    known = {name.removeprefix("benchapp.tasks.") for name in app.tasks if name.startswith("benchapp.tasks.")}

    assert set(re.findall(r"^\| `tasks\.(\w+)` \|", table, re.MULTILINE)) == known
    assert [name for name in named if not hasattr(tasks, name)] == []


def test_documentation_is_below_the_checkout() -> None:
    assert settings.BASE_DIR == ROOT
