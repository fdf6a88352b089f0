"""What the report says, read from its files."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import yaml
from PIL import Image
from sklearn.metrics import roc_auc_score

from edgemask.errors import UserError
from edgemask.report import write_audit_report, write_report
from edgemask.report.charts import nice_ticks
from edgemask.report.heatmaps import realised_transition
from edgemask.report.results import corrections_table
from edgemask.report.trust import detection, doubtful_list
from edgemask.runs import read_run, suspicious_order
from report.auditdirs import write_audit
from report.rundirs import RunMaker

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "=cmd|' /c calc'!A1",
    "pipe | and `tick`",
    "\u202ereversed\x1b[2J",
    "'\"><svg onload=alert(1)>",
    "<!--<script>",
    "\ud800 lone",
    "x" * 5000,
    "javascript:alert(1)",
]
VOID = {"meta", "link", "img", "input", "path", "br"}


class Reader(HTMLParser):
    """Collects the elements and checks that they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def parse(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


def script_data(reader: Reader, name: str) -> dict[str, Any]:
    """Return the data that a script of the page reads."""
    names = [attributes.get("id") for tag, attributes in reader.found if tag == "script"]
    found: dict[str, Any] = json.loads(reader.text["script"][names.index(name)])
    return found


@pytest.fixture(scope="module")
def single(make_run: RunMaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([make_run()], tmp_path_factory.mktemp("single")).html


def test_the_page_has_every_section_and_figure(single: Path) -> None:
    reader = parse(single)
    titles = reader.text["h2"]
    assert titles == [
        "Samples worth checking",
        "Labels and noise",
        "Results",
        "Classes",
        "Curves",
        "The head",
        "What was run",
        "How to repeat it",
    ]
    captions = reader.text["figcaption"]
    for caption in (
        "Accuracy",
        "Confidence in the given labels",
        "Memorisation",
        "Edges retained",
        "Scores of the edges",
        "Edges of the head: classes down, features across",
        "Given label by true class, as counted (%)",
        "Trust in the given labels",
    ):
        assert caption in captions
    assert len(script_data(reader, "review-data")["pictures"]) == 64
    assert single.stat().st_size < 2_000_000


def test_the_page_loads_nothing_and_allows_one_script(single: Path) -> None:
    for tag, attributes in parse(single).found:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:"), (tag, value)
        assert not any(name.startswith("on") for name in attributes)
    text = single.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", text)


def test_ids_are_unique_also_with_several_runs(make_run: RunMaker, tmp_path: Path) -> None:
    runs = [make_run(f"r{place}", loss=loss) for place, loss in enumerate(("ce", "jal"))]
    reader = parse(write_report(runs, tmp_path).html)
    ids = [attributes["id"] for _, attributes in reader.found if attributes.get("id")]
    assert len(ids) == len(set(ids))
    figures = script_data(reader, "figures")
    assert set(figures) <= set(ids)
    assert "Comparison" in reader.text["h2"]


def test_numbers_on_the_page_are_those_of_the_run(single: Path, make_run: RunMaker) -> None:
    text = single.read_text()
    run = read_run(make_run())
    ends = run.summary["test/accuracy"]
    for value in (ends["last"], ends["mean_last_10"], ends["at_validation"]):
        assert f">{100 * value:.2f}</td>" in text
    assert f">{100 * ends['best']:.2f} (epoch {ends['best_epoch']})</td>" in text
    assert "best (oracle)" in text
    assert "f00d0000" in text
    assert "config.yaml --out run-again</code>" in text
    assert "batch_size: 128" in text


def test_hostile_names_stay_text_everywhere(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run(names=HOSTILE, name="</title><script>alert(2)</script>")
    files = write_report([path], tmp_path)
    reader = parse(files.html)
    scripts = [attributes for tag, attributes in reader.found if tag == "script"]
    data = [{"type": "application/json", "id": name} for name in ("review-data", "figures")]
    assert scripts == [*data, {}]
    assert not any(tag == "svg" and "onload" in attributes for tag, attributes in reader.found)
    assert not any(attributes.get("onerror") for _, attributes in reader.found)
    assert reader.text["title"] == ["</title><script>alert(2)</script> · EdgeMask"]
    html = files.html.read_text(encoding="utf-8")
    assert "\u202e" not in html
    assert "x" * 400 not in re.sub(r"(?s)<script .*?</script>", "", html)
    figures = script_data(reader, "figures")
    rows = next(figure["rows"] for figure in figures.values() if figure["kind"] == "map")
    assert rows[0] == HOSTILE[0]
    markdown = files.markdown.read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)<(script|img|svg)", markdown)
    with files.csv.open(encoding="utf-8", newline="") as file:
        assert not any(field[:1] in set("=+@") for row in csv.reader(file) for field in row)


def test_a_run_without_clean_labels_lists_ids_and_claims_nothing(
    make_run: RunMaker, tmp_path: Path
) -> None:
    files = write_report([make_run(clean_known=False, pictures=None)], tmp_path)
    text = files.html.read_text()
    reader = parse(files.html)
    assert "The 100 samples of lowest trust, of 600" in reader.text["caption"]
    assert "clean labels are not known" in text
    assert "Memorisation" not in reader.text["figcaption"]
    assert "ROC" not in text
    assert "They may all be right" in text
    assert "estimated" not in text
    assert not any(tag == "img" and "sample" in (a["alt"] or "") for tag, a in reader.found)


def test_an_unfinished_run_says_how_to_go_on(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run("half", finished=False, epochs=4)
    files = write_report([path], tmp_path)
    text = files.html.read_text()
    assert "unfinished: 4 of 4 epochs" in text
    assert f"edgemask resume {path}" in text
    assert "unfinished" in files.markdown.read_text()
    assert "How to repeat it" in text


def test_a_page_of_several_runs_counts_the_unfinished_ones(
    make_run: RunMaker, tmp_path: Path
) -> None:
    runs = [make_run(seed=seed, finished=seed != 1) for seed in range(3)]
    for chosen, badge in ((runs, "1 unfinished"), (runs[::2], "finished")):
        page = write_report(chosen, tmp_path / badge).html.read_text(encoding="utf-8")
        assert re.findall(r'class="badge[^"]*"[^>]*>([^<]*)<', page) == [badge]


def test_an_unfinished_run_shows_what_is_known_of_its_samples_so_far(
    make_run: RunMaker, tmp_path: Path
) -> None:
    path = make_run("half", epochs=4)
    (path / "summary.json").unlink()
    with np.load(path / "samples.npz") as file:
        arrays = {key: file[key] for key in file.files}
    known = {"after": 3, "class_names": [f"kind {n}" for n in range(10)]}
    np.savez(path / "samples.npz", **arrays, so_far=np.array(json.dumps(known)))
    low = int((arrays["trust"] < 0.5).sum())
    files = write_report([path], tmp_path)
    assert (
        f"After epoch 3 of 4: {low} of the training labels have a score below one half so far"
        in (files.html.read_text())
    )
    assert "of 600, after epoch 3 of 4" in files.markdown.read_text()
    assert "kind 3" in files.html.read_text()
    # What a stranger wrote there is no reason to fail.
    for broken in ("[1]", "{", '{"after": "x", "class_names": 3}', '{"after": -1}'):
        np.savez(path / "samples.npz", **arrays, so_far=np.array(broken))
        assert read_run(path).so_far == ""
        assert write_report([path], tmp_path).html.is_file()


def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("name: just started\n")
    assert read_run(tmp_path / "run").num_classes == 0
    text = write_report([tmp_path / "run"], tmp_path / "out").html.read_text()
    assert "No epoch has been finished yet." in text
    parse(tmp_path / "out" / "report.html")


def test_a_hundred_classes_stay_light_and_name_the_commonest_confusions(
    make_run: RunMaker, tmp_path: Path
) -> None:
    path = make_run(classes=100, features=256, epochs=60, samples=5000, pictures=(64, 96, 96, 3))
    files = write_report([path], tmp_path)
    reader = parse(files.html)
    assert files.html.stat().st_size < 2_000_000
    assert "Most frequent confusions" in reader.text["caption"]
    figures = script_data(reader, "figures")
    shapes = [figure["shape"] for figure in figures.values() if figure["kind"] == "map"]
    assert [1, 100, 100] in shapes
    assert next(shape for shape in shapes if shape[0] > 1)[1:] == [100, 256]


def test_a_thousand_classes_have_a_page(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run(classes=1000, features=256, epochs=4, samples=5000, pictures=None)
    files = write_report([path], tmp_path)
    assert files.html.stat().st_size < 3_000_000
    assert "1000 classes are too many to draw" in files.html.read_text()


def test_grey_pictures_and_heads_without_scores_have_pages(
    make_run: RunMaker, tmp_path: Path
) -> None:
    path = make_run(head="linear", pictures=(12, 8, 8, 1))
    reader = parse(write_report([path], tmp_path).html)
    assert "The head" not in reader.text["h2"]
    assert len(script_data(reader, "review-data")["pictures"]) == 12


def test_the_transition_matrix_is_counted(make_run: RunMaker) -> None:
    run = read_run(make_run(samples=200))
    matrix = realised_transition(run)
    assert matrix is not None
    for true in range(10):
        of_class = run.noise["noisy"][run.noise["clean"] == true]
        for given in range(10):
            assert matrix[true, given] == pytest.approx(np.mean(of_class == given))


def test_detection_equals_sklearn(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run(samples=300)
    arrays = dict(np.load(path / "samples.npz"))
    arrays["trust"] = np.round(arrays["trust"], 1)  # with ties
    np.savez(path / "samples.npz", **arrays)
    table = detection(read_run(path))
    assert table is not None
    wrong = arrays["given"] != arrays["clean"]
    values = [row[1].value for row in table.cells]
    assert values[0] == pytest.approx(roc_auc_score(~wrong, arrays["trust"]))
    flagged = arrays["trust"] < 0.5
    assert values[1] == flagged.sum()
    assert values[2] == pytest.approx(wrong[flagged].mean())
    assert values[3] == pytest.approx(flagged[wrong].mean())


def test_the_most_doubtful_come_first(make_run: RunMaker) -> None:
    run = read_run(make_run(samples=50))
    table = doubtful_list(run, most=10)
    assert table is not None
    order = np.argsort(run.samples["trust"], kind="stable")[:10]
    assert [row[0].value for row in table.cells] == run.samples["index"][order].tolist()


def test_ties_are_broken_by_the_loss_and_never_by_position(
    make_run: RunMaker, tmp_path: Path
) -> None:
    path = make_run(samples=400, pictures=None)
    with np.load(path / "samples.npz") as file:
        arrays = {key: file[key] for key in file.files}
    arrays["given"] = np.sort(arrays["given"])  # positions go by class, as in a folder
    arrays["trust"] = np.zeros(400, np.float32)
    arrays["mean_loss"] = np.repeat(np.arange(4, dtype=np.float32), 100)
    arrays["confidence"] = np.zeros(400, np.float32)
    np.savez(path / "samples.npz", **arrays)
    order = suspicious_order(read_run(path).samples)
    assert (arrays["mean_loss"][order] == np.repeat([3, 2, 1, 0], 100)).all()
    assert order[:100].tolist() != sorted(order[:100].tolist())
    arrays["reviewed"] = np.arange(400) >= 10
    np.savez(path / "samples.npz", **arrays)
    assert sorted(suspicious_order(read_run(path).samples).tolist()) == list(range(10))
    table = doubtful_list(read_run(path))
    assert table is not None
    assert len(table.rows) == 10


def test_samples_are_shown_by_name(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run(samples=30, pictures=None)
    with np.load(path / "samples.npz") as file:
        arrays = {key: file[key] for key in file.files}
    arrays["name"] = np.array([f"cat/{n}.png" for n in range(30)])
    np.savez(path / "samples.npz", **arrays)
    files = write_report([path], tmp_path)
    shown = script_data(parse(files.html), "review-data")["id"]
    assert set(shown) <= set(arrays["name"].tolist())
    assert "cat/0.png" in files.markdown.read_text()


def test_corrections_are_shown_before_and_after(make_run: RunMaker, tmp_path: Path) -> None:
    plain, fixed = make_run("plain", classes=3), make_run("fixed", classes=3)
    config = yaml.safe_load((fixed / "config.yaml").read_text())
    config["data"]["corrections"] = "fixed.csv"
    (fixed / "config.yaml").write_text(yaml.safe_dump(config))
    summary = json.loads((fixed / "summary.json").read_text())
    counts = {"kept": 4, "relabelled": 3, "dropped": 2, "before": [9, 9, 9], "after": [6, 10, 9]}
    (fixed / "summary.json").write_text(json.dumps(summary | {"corrections": counts}))
    text = write_report([fixed], tmp_path).html.read_text()
    assert "Labels reviewed and kept: 4, changed: 3; samples dropped: 2" in text
    table = corrections_table(read_run(fixed))
    assert table is not None
    assert [[cell.value for cell in row[1:]] for row in table.cells] == [
        [9, 6, -3],
        [9, 10, 1],
        [9, 9, 0],
    ]
    both = write_report([plain, fixed], tmp_path).html.read_text()
    assert "labels corrected by fixed.csv" in both
    assert "labels as given" in both
    for damaged in ({"before": [1], "after": []}, {"before": "x"}, [], {"before": [1] * 9}):
        (fixed / "summary.json").write_text(json.dumps(summary | {"corrections": damaged}))
        assert corrections_table(read_run(fixed)) is None


def test_remarks_of_a_run_stand_first(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run()
    summary = json.loads((path / "summary.json").read_text())
    remarks = ["the class <b>cat</b> is given often and never predicted"]
    (path / "summary.json").write_text(json.dumps(summary | {"remarks": remarks}))
    reader = parse(write_report([path], tmp_path).html)
    assert reader.text["h2"][0] == "Before you read the numbers"
    assert remarks[0] in reader.text["li"]
    (path / "summary.json").write_text(json.dumps(summary | {"remarks": "all fine"}))
    assert parse(write_report([path], tmp_path).html).text["h2"][0] == "Samples worth checking"


def test_pictures_of_a_review_stay_within_their_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgemask.report import review

    folder = write_audit(tmp_path / "audit", pictures=60, draw=0)
    monkeypatch.setattr(review, "MAX_PICTURE_BYTES", 20_000)
    page = write_audit_report(folder)
    pictures = script_data(parse(page), "review-data")["pictures"]
    assert 0 < len(pictures) < 60
    assert sum(map(len, pictures.values())) <= 20_000
    assert list(pictures) == [str(row) for row in range(len(pictures))]
    for picture in pictures.values():
        data = base64.b64decode(picture.partition(",")[2])
        assert Image.open(io.BytesIO(data)).size == (32, 32)


def test_an_audit_that_lists_nothing_has_a_page(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "audit", listed=0, pictures=None)
    reader = parse(write_audit_report(folder))
    data = script_data(reader, "review-data")
    assert (data["listed"], len(data["id"]), len(data["check"])) == (0, 100, 100)
    assert "Those on the list may all be right." not in " ".join(reader.text["p"])


def test_damaged_audits_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "audit", pictures=None)
    facts = json.loads((folder / "audit.json").read_text())
    for change in (
        {"check": [0, 0]},
        {"check": [300]},
        {"check": [True]},
        {"check": "all"},
        {"decisions": [{"id": 1, "action": "keep"}]},
        {"decisions": {"id": "1"}},
        {"schema": 99},
    ):
        (folder / "audit.json").write_text(json.dumps(facts | change))
        with pytest.raises(UserError) as caught:
            write_audit_report(folder)
        assert "\n" not in str(caught.value)
    assert not (folder / "report.html").exists()


def test_csv_has_a_row_a_run_in_full_precision(make_run: RunMaker, tmp_path: Path) -> None:
    runs = [make_run(f"s{seed}", seed=seed) for seed in range(3)]
    with write_report(runs, tmp_path).csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["0", "1", "2"]
    for row, path in zip(rows, runs, strict=True):
        summary = read_run(path).summary
        assert float(row["test accuracy: last"]) == summary["test/accuracy"]["last"]
        assert float(row["wrong labels memorised"]) == summary["memorised"]


def test_a_run_named_twice_counts_once(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run()
    files = write_report([path, path.parent / "." / path.name], tmp_path)
    assert len(files.csv.read_text().splitlines()) == 2


def test_markdown_holds_the_tables(make_run: RunMaker, tmp_path: Path) -> None:
    text = write_report([make_run()], tmp_path).markdown.read_text()
    assert text.startswith("# digits-ce-sem\n")
    assert "| in % | last | mean of last 10 | best (oracle) | at validation |" in text
    assert "    edgemask train --config " in text


def test_chosen_weights_have_a_column_where_a_run_chose(make_run: RunMaker, tmp_path: Path) -> None:
    chosen, plain = make_run("chosen", loss="ce"), make_run("plain", loss="jal")
    summary = json.loads((chosen / "summary.json").read_text())
    summary["selected"] = {"by": "validation", "test/accuracy": 0.4321}
    (chosen / "summary.json").write_text(json.dumps(summary))
    text = write_report([chosen], tmp_path / "one").markdown.read_text()
    assert "| at validation | selected |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| test accuracy |")]
    assert line.endswith("| 43.21 |")
    assert "selected" not in write_report([plain], tmp_path / "two").markdown.read_text()
    with write_report([chosen, plain], tmp_path / "both").csv.open() as file:
        rows = {row["folder"]: row["test accuracy: selected"] for row in csv.DictReader(file)}
    assert rows == {str(chosen): "0.4321", str(plain): ""}


def test_errors_name_what_to_do(make_run: RunMaker, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name at least one run"):
        write_report([], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_report([make_run()], tmp_path / "file")


def test_ticks_cover_the_range() -> None:
    for low, high in ((0.0, 1.0), (0.31, 0.32), (-5, 12_345), (0.5, 0.5), (0, 0)):
        ticks = nice_ticks(low, high)
        assert ticks[0] <= low <= high <= ticks[-1]
        assert 3 <= len(ticks) <= 8


def test_pictures_that_are_not_in_the_page_have_links_to_their_files(tmp_path: Path) -> None:
    ids = [f"c%20 {n}/#{n}?.png" for n in range(40)]
    folder = write_audit(tmp_path / "audits" / "a", samples=40, listed=40, ids=ids, pictures=None)
    for name in ids[:-1]:
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        (tmp_path / "photos" / name).write_bytes(b"")
    facts = json.loads((folder / "audit.json").read_text())
    for kind, spec in (("imagefolder", "photos"), ("csv", "photos/list.csv")):
        (tmp_path / "photos" / "list.csv").write_bytes(b"")
        spec = f"{kind}:{tmp_path / spec}"
        (folder / "audit.json").write_text(json.dumps(facts | {"data": spec}))
        page = write_audit_report(folder)
        data = script_data(parse(page), "review-data")
        assert len(data["links"]) == 39
        for row, link in data["links"].items():
            file = (page.parent / unquote(link)).resolve()
            assert file == tmp_path / "photos" / data["id"][int(row)]
        assert f"edgemask train --data {spec} --corrections corrections.csv" in page.read_text()
