"""Cards for the Hugging Face Hub, and uploads to a stand-in of it on this machine (tests/export/hub.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from evenglot.cli import app
from evenglot.directions import Direction
from evenglot.export.hub import Sharing, check_repository, metadata
from evenglot.export.huggingface import export
from evenglot.export.languages import hub_code
from evenglot.runs.run import Run
from evenglot.runs.scores import Scores
from tests.export.hub import TOKEN, local_hub

DIRECTIONS = [Direction("por", "en"), Direction("zh_Hans", "en"), Direction("fao", "en"), Direction("hsb", "en")]
SCORES = Scores(
    split="test",
    signature={"bleu": "nrefs:1|tok:13a", "chrf": "nrefs:1|nw:2"},
    directions={
        "por-en": {"bleu": 31.256, "chrf": 55.1, "lines": 30},
        "fao-en": {"bleu": 2, "chrf": 9, "lines": 12},
    },
    macro={"bleu": 16.63, "chrf": 32.05},
    worst={"direction": "fao-en", "bleu": 2, "chrf": 9},
)


TWO_LETTERS = {"por": "pt", "pt_BR": "pt", "zho_Hans": "zh", "arb_Arab": "ar", "hsb": "hsb", "en": "en", "ger": "de"}


@pytest.mark.parametrize(("code", "expected"), TWO_LETTERS.items())
def test_languages_have_two_letters_where_there_are_such_codes(code, expected):
    assert hub_code(code) == expected


def test_a_card_as_the_hub_reads_it():
    about = metadata("mine", DIRECTIONS, SCORES, Sharing("cc-by-4.0", ["someone/corpus"]))
    card = ModelCard(f"---\n{yaml.safe_dump(about, sort_keys=False)}---\n# mine\n", ignore_metadata_errors=False)
    assert card.data.language == ["en", "fo", "hsb", "pt", "zh"]
    assert (card.data.license, card.data.datasets) == ("cc-by-4.0", ["someone/corpus"])
    assert (card.data.pipeline_tag, card.data.library_name) == ("translation", "transformers")
    (model,) = about["model-index"]
    assert len(model["results"]) == 2, "one result per direction"
    found = {(each.dataset_config, each.metric_type): each.metric_value for each in card.data.eval_results}
    assert found == {
        ("por-en", "bleu"): 31.26, ("por-en", "chrf"): 55.1, ("fao-en", "bleu"): 2, ("fao-en", "chrf"): 9
    }  # fmt: skip
    assert {each.dataset_type for each in card.data.eval_results} == {"someone/corpus"}
    assert {each.dataset_split for each in card.data.eval_results} == {"test"}


def test_what_is_not_known_is_left_out():
    about = metadata("mine", DIRECTIONS, None, Sharing())
    assert set(about) == {"language", "library_name", "pipeline_tag", "tags"}


@pytest.mark.parametrize("name", ["model", "a/b/c", "a b/c", "http://x/y"])
def test_names_that_the_hub_refuses_are_refused_before_the_work(name, tmp_path):
    with pytest.raises(ValueError, match="--push"):
        check_repository(name)
    with pytest.raises(ValueError, match="--license"):
        Sharing("CC BY 4.0")
    with pytest.raises(ValueError, match="--base-model"):
        Sharing(base_model="/home/me/nllb")
    arguments = ["export", str(tmp_path), "--to", "huggingface", "--out", str(tmp_path / "out"), "--push", name]
    assert "--push" in str(CliRunner().invoke(app, arguments).exception)


@pytest.mark.parametrize(
    "option", [["--push", "a/b"], ["--license", "mit"], ["--dataset", "a/b"], ["--base-model", "a/b"]]
)
def test_other_formats_have_no_card(option, tmp_path):
    arguments = ["export", str(tmp_path), "--to", "ctranslate2", "--out", str(tmp_path / "out"), *option]
    assert option[0] in str(CliRunner().invoke(app, arguments).exception)


def test_adapters_are_not_uploaded_without_the_name_of_their_model(tmp_path):
    arguments = ["export", str(tmp_path), "--to", "huggingface", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*arguments, "--adapter", "--push", "me/it"])
    assert isinstance(done.exception, ValueError)
    assert "--base-model" in str(done.exception)


def test_a_model_trained_from_scratch_has_no_base(run, tmp_path):
    with pytest.raises(ValueError, match=r"--base-model: .*model\.init"):
        export(Run(run), tmp_path / "out", sharing=Sharing(base_model="a/b"))
    assert not (tmp_path / "out").exists()


def environment(hub, home, token):
    """Of a process that takes the stand-in for the Hub; the person who tests may be logged in to the real one."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return others | {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(home),
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


PUSH = """
import sys
from pathlib import Path
from evenglot.export.hub import push
print(push(Path(sys.argv[1]), "me/it"))
"""


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_arrives_whole(tmp_path):
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlanguage: [pt, en]\n---\n# it\n")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 100)
    with local_hub() as hub:
        done = subprocess.run(
            [sys.executable, "-c", PUSH, str(folder)],
            env=environment(hub, tmp_path / "home", TOKEN), capture_output=True, text=True,
        )  # fmt: skip
        refused = subprocess.run(
            [sys.executable, "-c", PUSH, str(folder)],
            env=environment(hub, tmp_path / "home", "hf_wrong"), capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{hub.address}/me/it"
    asked = hub.repositories["me/it"]
    assert asked.get("private") is True or asked.get("visibility") == "private"  # in older and newer versions
    assert hub.files == {"me/it": content_of(folder)}
    assert len(hub.objects) == len(hub.messages) == 1
    assert "ValueError: --push me/it: " in refused.stderr
    assert "hf auth login" in refused.stderr.splitlines()[-1]


@pytest.mark.slow
def test_export_and_push_with_one_command(run, tmp_path):
    arguments = ["--to", "huggingface", "--out", str(tmp_path / "out"), "--push", "me/it", "--license", "mit"]
    with local_hub() as hub:
        done = subprocess.run(
            [sys.executable, "-m", "evenglot", "export", str(run), *arguments],
            env=environment(hub, tmp_path / "home", TOKEN), capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert hub.files == {"me/it": content_of(tmp_path / "out")}
    assert yaml.safe_load(hub.files["me/it"]["README.md"].split(b"---\n")[1])["license"] == "mit"
    assert not done.stderr
