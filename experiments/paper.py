"""The paper's numbers, keyed by our names."""

from __future__ import annotations

from typing import Any

from evenglot.paper.numbers import printed

# Our rows -> names in the paper's tables.
METHODS = {
    "tau-5": "ERM_tau5",
    "tau-100": "ERM_tau100",
    "multidds": "MultiDDS",
    "chi-paper": "chi-IBR",
    "chi-R5": "chi-IBR",
    "chi-rho.1": "chi-IBR",
    "fastdro": "FastDRO",
    "group-dro": "GDRO_PD",
    "cvar-pd": "CVaR-GDRO_PD",
    "cvar-ibr": "CVaR-GDRO_IBR",
    "chi-pd": "chi2-GDRO_PD",
}
TABLES = {  # our grid -> table of the paper with these strategies, its corpus, and our name of it
    "related/table-a": ("tab:ted:full", "ted_related", "TED related"),
    "related/table-b": ("tab:wmt:dro", "wmt", "WMT"),
    "related/table-c": ("tab:ted:full", "ted_related", "TED related"),
    "related/main": ("tab:ted:full", "ted_related", "TED related"),
    "related-long/main": ("tab:ted:full", "ted_related", "TED related"),
    "diverse/main": ("tab:ted:full", "ted_diverse", "TED diverse"),
}
ABLATION = {  # en-any only; the paper's smaller and larger radius correspond to our R = 5 and R = 10
    "ted_related": {
        "tau-100": "ERM tau=100",
        "chi-R5-nobase": "chi-IBR rho=0.05 no baseline",
        "chi-R10-nobase": "chi-IBR rho=0.1 no baseline",
        "chi-R5": "chi-IBR rho=0.05 baseline tau=1",
        "chi-R10": "chi-IBR rho=0.1 baseline tau=1",
        "chi-R5-base100": "chi-IBR rho=0.05 baseline tau=100",
    }
}


def paper_numbers(table: str, direction: str) -> dict[str, Any] | None:
    """The paper's average BLEU, keyed by our names, and its corpus."""
    if table not in TABLES:
        return None
    of, dataset, where = TABLES[table]
    content = printed()
    by_method = {
        row["method"]: row["avg_reported"]
        for row in content["rows"]
        if row["dataset"] == dataset and row["direction"] == direction and row["table"] in (of, "tab:wmt:full")
    }
    by_setting = {
        row["setting"]: row["avg_bleu"]
        for row in content["ablation"]
        if row["dataset"] == dataset and row["direction"] == direction
    }
    return {
        "where": where,
        "erm": by_method["ERM_tau1"],
        **{ours: by_method[theirs] for ours, theirs in METHODS.items() if theirs in by_method},
        **{ours: by_setting[theirs] for ours, theirs in ABLATION.get(dataset, {}).items() if theirs in by_setting},
    }
