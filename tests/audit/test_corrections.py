"""Decisions of a person: read, checked, applied, written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from edgemask.audit import Corrections, LabelAudit, from_probabilities, read_corrections
from edgemask.errors import UserError
from sweeps import sweep

NAMES = ["cat", "dog", "cow"]
IDS = ["a.png", "b.png", "c.png", "d.png"]


def _file(folder: Path, text: str) -> Path:
    path = folder / "corrections.csv"
    path.write_bytes(text.encode())
    return path


TEXT = "id,action,label\na.png,keep,\nb.png,relabel,cow\nd.png,drop,\nc.png,,\n"


@sweep(
    "make",
    [
        lambda folder: _file(folder, TEXT),
        lambda folder: str(_file(folder, "\ufeff" + TEXT.replace("\n", "\r\n"))),
        lambda folder: _file(folder, TEXT.replace(",", ";")),
        lambda folder: pd.read_csv(_file(folder, TEXT)),
        lambda folder: pd.read_csv(_file(folder, TEXT)).to_dict("records"),
        lambda folder: read_corrections(_file(folder, TEXT)),
    ],
)
def test_decisions_change_labels_from_any_source(make: Any, tmp_path: Path) -> None:
    decisions = read_corrections(make(tmp_path))
    assert len(decisions) == 3
    result = decisions.apply(IDS, [0, 1, 2, 0], NAMES)
    assert result.labels.tolist() == [0, 2, 2, 0]
    assert result.kept.tolist() == [True, True, True, False]
    assert result.reviewed.tolist() == [True, True, False, False]
    assert result.summary(NAMES) == {
        "kept": 1,
        "relabelled": 1,
        "dropped": 1,
        "before": [2, 1, 1],
        "after": [1, 0, 2],
        "changes": [[1, 2, 1]],
    }


def test_rows_and_numbers_as_ids() -> None:
    frame = pd.DataFrame({"id": [2, 0], "action": ["relabel", "keep"], "label": [1, np.nan]})
    result = read_corrections(frame).apply(None, [0, 0, 0], ["0", "1"])
    assert result.labels.tolist() == [0, 0, 1]


@sweep(
    "text, words",
    [
        ("id,action\nz.png,keep\n", "line 2: there is no sample 'z.png' in the data"),
        ("id,action,label\na.png,relabel,dogg\n", "there is no class 'dogg'; did you mean 'dog'"),
        ("id,action,label\na.png,relabel,\n", "'relabel' needs the right class"),
        ("id,action\na.png,keep\na.png,drop\n", "line 3: the sample 'a.png' was decided before"),
        ("id,action\na.png,kepp\n", "unknown action 'kepp'; did you mean 'keep'"),
        ("id,action\n,keep\n", "the column 'id' is empty"),
        ("name,action\na.png,keep\n", "there is no column 'id'; got name, action"),
        ("", "there is no column 'id'; got none"),
        ("id,action\na.png,keep,1,2\n", "more fields than the header"),
        ("id,action,check\na.png,keep,first\n", "check must be a place from 1"),
        ("id,action,given\na.png,drop,dog\n", "was reviewed with the label 'dog', and now has"),
        ('id,action\n"a.png,keep\n', "cannot be read as CSV"),
        ("id,action\n\x1b[2J,keep\n", "there is no sample '\\\\x1b[2J'"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_corrections(_file(tmp_path, text)).apply(IDS, [0, 1, 2, 0], NAMES)
    message = str(caught.value)
    assert words in message
    assert "corrections.csv" in message
    assert "\n" not in message
    assert message.isprintable()


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    for source, words in (
        (tmp_path / "none.csv", "no such file"),
        ({"id": [1]}, "a list of mappings"),
        (3, "a list of mappings"),
        (["a.png"], "expected a mapping"),
        ([{"id": 1}], "there is no column 'action'"),
        (_file(tmp_path, "id,action\n\xff\xfe").parent, "no such file"),
    ):
        with pytest.raises(UserError, match=words):
            read_corrections(source)
    (tmp_path / "latin.csv").write_bytes(b"id,action\n\xe4,keep\n")
    with pytest.raises(UserError, match="cannot be read as CSV"):
        read_corrections(tmp_path / "latin.csv")


def test_an_id_that_several_samples_share_is_refused() -> None:
    rows = [{"id": "a", "action": "keep"}]
    with pytest.raises(UserError, match="several samples have the id 'a'"):
        read_corrections(rows).apply(["a", "a"], [0, 0], NAMES)


def test_corrections_that_were_applied_already_change_nothing() -> None:
    rows = [{"id": "a", "action": "relabel", "label": "dog", "given": "cat"}]
    result = read_corrections(rows).apply(["a"], [1], NAMES)
    assert result.labels.tolist() == [1]
    assert result.summary(NAMES)["kept"] == 1


def test_hostile_names_are_written_harmlessly_and_found_again(tmp_path: Path) -> None:
    ids = [
        "=cmd|' /C calc'!A0",
        "+1",
        "-2",
        "@x",
        "'=quoted",
        "a\u202egnp.exe",
        "x\x1b[2J",
        'q",\n',
    ]
    rows = [{"id": name, "action": "relabel", "label": "=1+1"} for name in ids]
    read_corrections(rows).save(tmp_path / "corrections.csv")
    text = (tmp_path / "corrections.csv").read_text(encoding="utf-8")
    assert all(line.isprintable() for line in text.splitlines())
    assert not any(cell[:1] in tuple("=+-@|%") for cell in text.replace('"', "").split(","))
    again = read_corrections(tmp_path / "corrections.csv")
    result = again.apply(ids, [0] * len(ids), ["ok", "=1+1"])
    assert result.labels.tolist() == [1] * len(ids)
    again.save(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text(encoding="utf-8") == text


def test_the_random_check_counts_up_to_the_first_gap() -> None:
    def checked(actions: dict[int, str]) -> tuple[int, int]:
        rows = [{"id": n, "action": a, "check": n, "label": "dog"} for n, a in actions.items()]
        rows.append({"id": 999, "action": "drop", "check": "", "label": ""})
        return read_corrections(rows).checked()

    assert checked({}) == (0, 0)
    assert checked({2: "keep", 1: "relabel", 3: "drop"}) == (2, 3)
    assert checked({1: "keep", 2: "keep", 4: "drop"}) == (0, 2)


def test_row_numbers_need_no_list_of_ids() -> None:
    rows = [{"id": 999_999, "action": "drop"}]
    assert (
        not Corrections(read_corrections(rows).rows)
        .apply(None, np.zeros(1_000_000, dtype=np.int64), NAMES)
        .kept[-1]
    )


def test_an_audit_after_a_review(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(120) % 3
    given = np.where(rng.random(120) < 0.2, (truth + 1) % 3, truth)
    probs = np.full((120, 3), 0.05) + 0.85 * np.eye(3)[truth]
    ids = [f"=\u202e{n}.png" for n in range(120)]
    found = from_probabilities(given, probs, ids=ids, class_names=NAMES)
    assert sorted(set(found.check.tolist())) == sorted(found.check.tolist())
    assert len(found.check) == 100
    drawn = [ids[place] for place in found.check[:40]]
    first = [name for name in found.suspects["id"] if name not in drawn][:2]
    rows = [
        {"id": first[0], "action": "keep"},
        {"id": first[1], "action": "drop"},
        {"id": "gone.png", "action": "drop"},
        *({"id": name, "action": "keep", "check": n} for n, name in enumerate(drawn, start=1)),
    ]
    after = found.after_review(rows)
    assert set(first).isdisjoint(after.suspects["id"])
    assert after.trust[ids.index(first[0])] == 1.0
    assert after.trust[ids.index(first[1])] == found.trust[ids.index(first[1])]
    assert {ids[place] for place in after.order[-42:]} == {*first, *drawn}
    low, high = binomtest(0, 40).proportion_ci(method="exact")
    assert (after.rate.kind, after.rate.checked, after.rate.wrong) == ("checked", 40, 0)
    assert after.rate.lower == pytest.approx(low, abs=1e-9)
    assert after.rate.upper == pytest.approx(high, abs=1e-9)
    again = LabelAudit.load(after.save(tmp_path))
    assert again.corrections is not None
    assert again.corrections.fingerprint == read_corrections(rows).fingerprint
    assert again.rate == after.rate
    text = (tmp_path / "suspects.csv").read_text(encoding="utf-8")
    assert all(line.isprintable() for line in text.splitlines())
    assert ",=" not in text
    with pytest.raises(UserError, match="no sample 'zzz' in the audit"):
        found.after_review([{"id": "zzz", "action": "keep"}])
