"""The documentation as data: its pages, what stands in their code blocks, and where their links lead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = ("evenglot", "make", "torchrun", "pip", "python", "source", "curl", "head", "tail", "ray")
SECTIONS = ("data", "clean", "vocabulary", "store", "balance", "batches", "model", "train", "base")


@dataclass(frozen=True)
class Block:
    """Lines of code in a page; `language` is what it says itself, or what it looks like."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """What a person is to type: without comments, and with lines that go on put together."""
        if self.language != "sh":
            return []
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        return [re.sub(r"(^|\s+)# .*", "", line) for line in lines if line.split(" ", 1)[0] in PROGRAMS]


def blocks(page: Path) -> list[Block]:
    """All code blocks of a page, fenced or indented by four spaces."""
    found: list[Block] = []
    name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        start = number
        if lines[start].startswith("```"):
            number = next(n for n in range(start + 1, len(lines)) if lines[n].startswith("```")) + 1
            text = "\n".join(lines[start + 1 : number - 1])
            found.append(Block(name, start + 2, lines[start][3:].strip() or _looks_like(text), text))
        elif lines[start].startswith("    ") and (start == 0 or not lines[start - 1].strip()):
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            text = "\n".join(line[4:] for line in lines[start:number]).rstrip()
            found.append(Block(name, start + 1, _looks_like(text), text))
        else:
            number += 1
    return found


def _looks_like(text: str) -> str:
    if text.split(None, 1)[0] in PROGRAMS:
        return "sh"
    if re.match(r"(from \w+\S* import |import \w|create\()", text):
        return "python"
    return "yaml" if re.match(rf"({'|'.join(SECTIONS)}):", text) else ""


def prose(page: Path) -> str:
    """A page without its code blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<=\n\n)(?:    .*\n|\n)+", "", text)


def code_spans(text: str) -> list[str]:
    """What stands `between backticks`, or between two where it has some itself."""
    return [two or one for two, one in re.findall(r"``(.+?) ?``|`([^`\n]+)`", text)]


def links(page: Path) -> list[str]:
    """Where a page leads to, without the web."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """Names of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
