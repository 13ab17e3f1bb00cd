import numpy as np
import pytest

from evenglot.balance import create, ideal, load_baseline, mean_losses, save_baseline

SIZES = {"aze-en": 5946, "tur-en": 182470}


def test_baselines_survive_a_file_to_the_last_bit_and_are_read_by_name(tmp_path):
    losses = {"aze-en": 2.1 + 1e-15, "tur-en": 1 / 3, "bel-en": 1.0}
    path = tmp_path / "baseline.json"
    save_baseline(path, losses, model="ERM", tau=1)
    assert load_baseline(path) == losses
    assert [file.name for file in tmp_path.iterdir()] == ["baseline.json"]
    from_file = create("chi-ibr", SIZES, rho=0.1, baseline=path)
    from_mapping = create("chi-ibr", SIZES, rho=0.1, baseline=losses)
    for balancer in (from_file, from_mapping):
        balancer.observe({"aze-en": 30.0, "tur-en": 9.0}, {"aze-en": 10, "tur-en": 5})
        balancer.update()
    assert from_file.q == from_mapping.q


@pytest.mark.parametrize("content", ["", "[]", '{"losses": [1, 2]}', '{"losses": {"aze-en": "low"}}', '{"tur-en": 2}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path, content):
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"^baseline: .*b\.json"):
        create("chi-ibr", SIZES, baseline=path)


def test_missing_files_and_groups_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"^baseline: .*nowhere\.json"):
        create("chi-ibr", SIZES, baseline=tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="^baseline: .*aze-en.*; .*tur-en"):
        create("chi-ibr", SIZES, baseline={"tur-en": 2.0})


def test_a_group_without_data_needs_no_reference():
    balancer = create("chi-ibr", {**SIZES, "none-en": 0}, baseline=dict.fromkeys(SIZES, 2.0))
    assert balancer.mixture.sample["none-en"] == 0


def test_any_kind_of_number_can_be_saved_if_it_is_finite(tmp_path):
    save_baseline(tmp_path / "b.json", {"a": np.float32(1.5)})
    assert load_baseline(tmp_path / "b.json") == {"a": 1.5}
    with pytest.raises(ValueError, match="^losses: .*'a'.*nan"):
        save_baseline(tmp_path / "c.json", {"a": float("nan")})
    assert not (tmp_path / "c.json").exists()


def test_means_and_the_ideal_of_several_references():
    assert mean_losses({"a": 6.0, "b": 2.0}, {"a": 3, "b": 4}) == {"a": 2.0, "b": 0.5}
    with pytest.raises(ValueError, match=r"^counts: .*\bb$"):
        mean_losses({"a": 6.0, "b": 2.0}, {"a": 3})
    assert ideal({"a": 2.0, "b": 1.0}, {"a": 1.5, "b": 3.0, "c": 0.0}) == {"a": 1.5, "b": 1.0}
