"""What the documentation says is true: every command it shows is run, every link leads somewhere."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.main import get_command

from evenglot import yaml12
from evenglot.balance import STRATEGIES
from evenglot.cli import app
from evenglot.config import Config, load_config
from evenglot.config.balance import model_of
from evenglot.config.example import example
from tests.documents import PAGES, ROOT, Block, anchors, blocks, code_spans, links, prose
from tests.patience import PATIENCE
from tests.workplace import SLOW, furnish, in_a_shell, in_process, perform, write_texts

BLOCKS = [block for page in PAGES for block in blocks(page)]
COMMANDS = {command: block.place for block in reversed(BLOCKS) for command in block.commands}  # where it stands first
SUBCOMMANDS = get_command(app).commands
TROUBLES = ROOT / "docs" / "troubleshooting.md"

# What no test here runs, and why. What `pip` and `make` are asked for is looked at below.
NOT_RUN = {
    r"make .*": "sets up an environment, or is what runs this test",
    r"pip install .*": "fetches packages",
    r"python -m venv .*": "fetches packages",
    r"source .*": "changes the shell of a person",
    r"evenglot (grid|paper-tables) corpora/ted/.*": "takes days; tests/paper/test_reproduction.py has it in small",
    r"evenglot report .*--watch.*": "goes on until it is stopped; tests/report does that",
    r"torchrun --nnodes .*": "needs several machines",
    r"ray start .*|evenglot grid .*--on ray.*": "needs a cluster; tests/grid/test_places.py has one",
    r"evenglot prepare .*--on ray": "needs a cluster; tests/corpus/test_on_ray.py has one",
    r"evenglot grid .*SLURM.*": "needs a job scheduler",
}
SERVED = r"curl |evenglot serve "  # those need each other


def is_run(command: str) -> bool:
    return not any(re.fullmatch(pattern, command) for pattern in NOT_RUN)


FAST = [command for command in sorted(COMMANDS) if is_run(command) and not re.match(SLOW, command)]
LONG = [c for c in sorted(COMMANDS) if is_run(c) and re.match(SLOW, c) and not re.match(SERVED, c)]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Iterator[Path]:
    """Text, configuration, store, and three runs that are scored; to be copied."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two that spin beside other processes are slower by far
    folder = tmp_path_factory.mktemp("docs") / "work"
    furnish(folder)
    yield folder
    torch.set_num_threads(threads)


@pytest.fixture
def work(workplace, tmp_path, monkeypatch) -> Path:
    """A copy of that, as the working folder."""
    folder = tmp_path / "work"
    shutil.copytree(workplace, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    page = shutil.copy(ROOT / "docs" / "reliability.md", tmp_path)  # attacks write their figures into it
    monkeypatch.setenv("TORTURE_PAGE", str(page))
    return folder


# ------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize("command", FAST, ids=lambda command: command[:99])
def test_a_command_of_the_docs_works(command, work):
    perform(command, work)
    if command == "evenglot example > conf.yaml":
        assert (work / "conf.yaml").read_text() == example()


@pytest.mark.slow
@pytest.mark.parametrize("command", LONG, ids=lambda command: command[:99])
def test_a_long_command_of_the_docs_works(command, work):
    if command.startswith("python models/first/"):
        perform("evenglot export runs/first --to ctranslate2 --out models/first", work)
    perform(command, work)


@pytest.mark.slow
def test_what_the_docs_say_of_the_server_works(work):
    for command in filter(re.compile("evenglot serve ").match, COMMANDS):
        words = [*shlex.split(command)[1:], "--port", "0"]  # any that is free; it says which
        server = subprocess.Popen(
            [sys.executable, "-m", "evenglot", *words],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said = server.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert address, said
            for asked in filter(re.compile("curl ").match, COMMANDS):
                local = asked.replace("http://127.0.0.1:8080", address[0])
                assert '"translations"' in in_a_shell(f"no_proxy=127.0.0.1 {local}", work)
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["quickstart", "your-data"])
def test_a_page_can_be_followed_from_top_to_bottom(page, tmp_path, monkeypatch):
    """In an empty folder, with the real recipe and the configuration of the page, though for fewer updates."""
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    steps = [block for block in BLOCKS if block.page == f"docs/{page}.md"]
    if page == "quickstart":
        shutil.copytree(ROOT / "evenglot" / "data", work / "evenglot" / "data")
        recipe = work / "evenglot" / "recipes" / "tiny-webui.yaml"
        recipe.parent.mkdir()
        recipe.write_text(shorter((ROOT / "evenglot" / "recipes" / "tiny-webui.yaml").read_text()))
        (work / "in.txt").write_text("Salvar\n")
    else:
        write_texts(work)
        conf = next(block.text for block in steps if block.text.startswith("data:"))  # others show a part
        small = shorter(conf).replace("size_shared: 4000, size_other: 8000", "size_shared: 60, size_other: 90")
        (work / "conf.yaml").write_text(small)
        (work / "in.txt").write_text((work / "corpora/aze-en/test.aze").read_text())
    for command in (command for block in steps for command in block.commands):
        if "corpora/por-en/all.por" in command:  # "and the same for the English side"; fewer lines too
            few = command.replace("1000", "20").replace("500", "10")
            perform(few, work)
            perform(few.replace(".por", ".en"), work)
        elif is_run(command) and not re.match(SERVED, command):
            perform(command, work, in_a_shell)


def shorter(text: str) -> str:
    made, count = re.subn(r"updates: \d+", "updates: 6", text)
    assert count == 1
    made = re.sub(r"warmup: \d+", "warmup: 3", made)
    return re.sub(r"size: mini", "size: tiny, dim: 32, ffn: 64, heads: 2", made)


def test_the_docs_show_no_command_that_nobody_knows():
    """A line that looks like a command but begins with another program would be overlooked."""
    for block in BLOCKS:
        if block.language in ("sh", "bash", "shell", "console"):
            assert block.language == "sh", f"{block.place}: call it sh"
            text = re.sub(r"\\\n\s*", "", block.text)
            unknown = [line for line in text.splitlines() if line and line not in "\n".join(block.commands)]
            unknown = [line for line in unknown if not any(line.startswith(command) for command in block.commands)]
            assert all(re.match(r"[ #{]", line) for line in unknown), f"{block.place}: {unknown}"


def test_no_command_leaves_a_pipe_before_all_is_written():
    """What still writes dies of SIGPIPE, sometimes: with `pipefail` the command then fails."""
    for command, place in COMMANDS.items():
        assert not re.search(r"\| *(head|grep -q|sed .*q)\b", command), place


def test_nothing_is_excused_that_is_not_there():
    for pattern in NOT_RUN:
        assert any(re.fullmatch(pattern, command) for command in COMMANDS), pattern


def test_make_knows_what_the_docs_make():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {command.split()[1] for command in COMMANDS if command.startswith("make ")} <= set(targets)


def test_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"evenglot\[([\w,]+)\]", "\n".join(page.read_text() for page in PAGES))
    assert named
    assert {extra for names in named for extra in names.split(",")} <= set(extras)


# ----------------------------------------------------------------------------------------- code and configurations


GIVEN = {  # what a reader has
    "intervals": 2,
    "draw": lambda shares: (["a batch"], {"aze-en": 4, "tur-en": 96}),
    "train_step": lambda batch: ({"aze-en": 12.0, "tur-en": 30.0}, {"aze-en": 4, "tur-en": 11}),
    "save": lambda state: None,
    "sizes": {"aze-en": 5946, "tur-en": 182470},
    "lines": ["ed kvqo"],
}
NEEDS = {  # a text in a block: why it is not run here
    "RECIPES[": "needs the downloads; tests/corpus/test_ted.py and test_wmt.py",
    "interleave_datasets": "tests/integrations/test_mixtures.py",
    "transformers": "test_an_exported_model_is_used_as_the_docs_say",
    "ctranslate2": "test_an_exported_model_is_used_as_the_docs_say",
    "CTranslate2Engine": "tests/export/test_ctranslate2.py",
}
PYTHON = [block for block in BLOCKS if block.language == "python"]


def run_python(block: Block, given: dict) -> None:
    """Run the statements; where a value stands in a comment behind an expression, it must be that one."""
    space = dict(given)
    lines = block.text.splitlines()
    for statement in ast.parse(block.text).body:
        source = ast.unparse(statement)
        said = lines[statement.end_lineno - 1].partition("  # ")[2].strip()
        if isinstance(statement, ast.Expr) and re.match(r"-?\d|array\(", said):
            expected = eval(said, {"array": np.array})
            np.testing.assert_allclose(eval(source, space), expected, rtol=1e-7, err_msg=block.place)
        else:
            exec(source, space)


@pytest.mark.parametrize("block", PYTHON, ids=[block.place for block in PYTHON])
def test_python_of_the_docs_runs(block, work):
    ast.parse(block.text)
    if not any(text in block.text for text in NEEDS):
        namespace = dict(GIVEN)
        exec("from evenglot.balance import create", namespace)
        run_python(block, namespace)


@pytest.mark.slow
def test_an_exported_model_is_used_as_the_docs_say(work):
    for command in filter(re.compile(r"evenglot export .* --out exported$").match, COMMANDS):
        in_a_shell(command, work)
    for block in PYTHON:
        if block.page == "docs/export.md" and "CTranslate2Engine" not in block.text:
            (work / "block.py").write_text(block.text)
            in_a_shell("python block.py", work)


def test_configurations_of_the_docs_are_valid(tmp_path):
    found = [block for block in BLOCKS if block.language == "yaml"]
    assert len(found) >= 3
    for block in found:
        value, _ = yaml12.parse(block.text)
        if "base" in value:
            assert {"base", "strategies"} <= set(value)
            parts = value["strategies"].values()
        else:
            parts = [value]
        for part in parts:
            data = {"data": {"directions": ["por-en"], "train": "{lang}"}}
            (tmp_path / "conf.yaml").write_text(yaml12.dump({**data, **part}))
            load_config(tmp_path / "conf.yaml", check_files=False)


# ------------------------------------------------------------------------------------------------------------- words


def in_short(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=in_short)
def test_links_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{in_short(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{in_short(page)}: {link}; there are {sorted(anchors(target))}"


SECTIONS = {name: field.annotation for name, field in Config.model_fields.items() if name != "seed"}
SUFFIXES = ("py", "json", "yaml", "md", "safetensors", "bin", "ids")  # `model.safetensors` is a file


def known_keys(model) -> list[str]:
    return [field.alias or key for key, field in model.model_fields.items()]


@pytest.mark.parametrize("page", PAGES, ids=in_short)
def test_commands_options_and_keys_in_sentences_exist(page):
    options = {option for command in SUBCOMMANDS.values() for parameter in command.params for option in parameter.opts}
    keys = {f"{name}.{key}" for name, model in SECTIONS.items() for key in known_keys(model)}
    keys |= {f"balance.{key}" for strategy in STRATEGIES for key in model_of(strategy).model_fields}
    for span in code_spans(prose(page)):
        words = span.split()
        if words[0] == "evenglot" and len(words) > 1 and not words[1].startswith("-"):
            assert words[1] in SUBCOMMANDS, f"{in_short(page)}: {span}"
            known = {option for parameter in SUBCOMMANDS[words[1]].params for option in parameter.opts} | {"--help"}
            assert {word for word in words if word.startswith("--")} <= known, f"{in_short(page)}: {span}"
        elif words[0].startswith("--") and "pytest" not in span:
            assert words[0].partition("=")[0] in options | {"--help", "--version"}, f"{in_short(page)}: {span}"
        key = re.match(rf"(?:{'|'.join(SECTIONS)})\.([a-z_0-9]+)(?![\w./(])", span)
        if key and key[1] not in SUFFIXES:
            assert key[0] in keys, f"{in_short(page)}: {span}"


def test_messages_in_troubleshooting_are_those_of_the_code():
    code = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "evenglot").rglob("*.py")))
    code = re.sub(r"\"\s+f?\"", "", code)  # strings that go on in the next line
    code = re.sub(r'OptionError\(\s*"(\w+)",\s*f?"', r'"\1: ', code)  # the option is an argument of its own
    messages = [
        message
        for row in TROUBLES.read_text(encoding="utf-8").splitlines()
        if row.startswith("| `")
        for message in code_spans(row.split(" | ")[0])
    ]
    assert len(messages) > 30
    for message in messages:
        parts = [part.strip() for part in message.split("…") if len(part.strip()) > 7]
        assert parts or re.fullmatch(r"\w+", message), f"{message}: too little of it"
        assert all(part in code for part in parts if " " in part), message


# ------------------------------------------------------------------------------------------- how all that is found


def test_blocks_and_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Text:\n\n    evenglot check a.yaml     # why\n    evenglot train b.yaml \\\n        --resume\n\n"
        "More `evenglot x`.\n\n"
        "```python\nimport evenglot\n```\n\n1. item\n    evenglot not-a-block\n\n    data:\n      train: x\n"
    )
    shell, python, yaml = blocks(page)
    assert shell.commands == ["evenglot check a.yaml", "evenglot train b.yaml --resume"]
    assert (python.language, python.text, python.commands) == ("python", "import evenglot", [])
    assert (yaml.language, yaml.text, yaml.line) == ("yaml", "data:\n  train: x", 16)
    assert " ".join(prose(page).split()) == "Text: More `evenglot x`. 1. item evenglot not-a-block"
    assert code_spans("`a b`, ``c `d` `` and `e`") == ["a b", "c `d`", "e"]


def test_a_command_that_is_no_more_is_noticed(work):
    with pytest.raises(AssertionError, match="No such command"):
        in_process("evenglot chekc conf.yaml", work)
    with pytest.raises(AssertionError, match="No such option"):
        in_process("evenglot check conf.yaml --jsn", work)
