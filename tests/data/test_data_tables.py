"""Tables and texts: what their columns become, from frames and from files."""

from __future__ import annotations

import datetime as dt
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from PIL import Image
from sklearn.feature_extraction.text import TfidfVectorizer

from edgemask.data import (
    Loader,
    SparseSplit,
    from_arrays,
    from_samples,
    from_table,
    from_texts,
    load,
)
from edgemask.data.columns import columns_of, read_csv
from edgemask.data.encoders import read_encoder
from edgemask.data.inputs import read_inputs
from edgemask.errors import DataError, EdgeMaskWarning
from sweeps import sweep

ROWS = {
    "age": [20.0, None, 40.0, 60.0, 30.0, None, 50.0, 10.0],
    "sex": ["m", "f", "f", None, "m", "f", "m", "f"],
    "member": [True, False, True, True, False, False, True, False],
    "born": [dt.date(1970, 1, day) for day in range(1, 9)],
    "ill": ["no", "yes", "no", "yes", "no", "yes", "no", "yes"],
}


def whole(bundle, split=None):
    """The samples as stored, in the order of their row numbers."""
    parts = [bundle.train, bundle.test]
    names = [int(name) for part in parts for name in part.names]
    rows = torch.cat([part.raw(torch.arange(len(part))) for part in parts])
    return rows[np.argsort(names)].numpy()


def frames():
    yield ROWS
    yield pd.DataFrame(ROWS)
    yield pd.DataFrame(ROWS).astype({"sex": "category"})
    yield pl.DataFrame(ROWS)
    yield [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)]


def test_columns_become_the_same_numbers_whatever_holds_them():
    expected = None
    for frame in frames():
        bundle = from_table(frame, "ill", test_fraction=0.25)
        found = whole(bundle)
        if expected is None:
            expected = found
        np.testing.assert_array_equal(found, expected)
        assert bundle.class_names == ("no", "yes")
        assert bundle.label_values == ("no", "yes")


def test_numbers_are_filled_and_scaled_by_the_training_rows_alone():
    bundle = from_table(ROWS, "ill", test_fraction=0.25, seed=3)
    kept = [int(name) for name in bundle.train.names]
    held = [int(name) for name in bundle.test.names]
    assert sorted(kept + held) == list(range(8))
    ages = np.array([np.nan if age is None else age for age in ROWS["age"]])
    median = np.nanmedian(ages[kept])
    filled = np.where(np.isnan(ages), median, ages)
    scaled = (filled - filled[kept].mean()) / filled[kept].std()
    np.testing.assert_allclose(whole(bundle)[:, 0], scaled, rtol=1e-6)
    np.testing.assert_array_equal(whole(bundle)[:, 1], np.isnan(ages))
    born = np.arange(8.0)
    place = bundle.encoder.features.index("born")
    np.testing.assert_allclose(
        whole(bundle)[:, place], (born - born[kept].mean()) / born[kept].std(), rtol=1e-6
    )


def test_an_encoder_survives_json_exactly():
    texts = [f"word{i % 7} and word{i % 3} é" for i in range(40)]
    for bundle in (from_table(ROWS, "ill"), from_texts(texts, np.arange(40) % 2)):
        again = read_encoder(json.loads(json.dumps(bundle.encoder.to_json())))
        assert again == bundle.encoder
    with pytest.raises(DataError, match="preprocessing is damaged"):
        read_encoder({"kind": "table"})


def test_new_rows_may_lack_values_and_have_unknown_ones():
    encoder = from_table(ROWS, "ill").encoder
    rows = {"age": ["31", "?", "old"], "sex": ["f", "x", ""], "member": ["yes", "no", None],
            "born": ["1970-01-02", "1970-01-02T12:00", None], "more": [1, 2, 3]}  # fmt: skip
    with pytest.warns(EdgeMaskWarning) as seen:
        found = encoder.encode(columns_of(rows))
    texts = [str(warning.message) for warning in seen]
    assert any("'age' holds 1 values that are no number ('old')" in text for text in texts)
    assert any("'sex' has values that the training data did not have ('x')" in t for t in texts)
    assert np.isfinite(found).all()
    at = {name: place for place, name in enumerate(encoder.features)}
    assert found[:, at["age: missing"]].tolist() == [0, 1, 1]
    assert found[1, at["sex=f"]] == found[1, at["sex=m"]] == 0
    assert found[1, at["born"]] - found[0, at["born"]] == pytest.approx(
        0.5 / encoder.columns[-1].std, rel=1e-5
    )
    with pytest.raises(DataError, match="the columns 'sex', 'member', 'born' of the training data"):
        encoder.encode(columns_of({"age": [1]}))


def test_columns_that_are_no_features_are_named():
    count = 60
    table = {
        "name": [f"Mr. {i}" for i in range(count)],
        "weight": [str(i) for i in range(count - 5)] + ["5 kg"] * 5,
        "empty": [None] * count,
        "many": [f"c{i % 20}" for i in range(count)],
        "list": [[1, 2]] * count,
        "y": [i % 2 for i in range(count)],
    }
    with pytest.warns(EdgeMaskWarning) as seen:
        bundle = from_table(table, "y", max_categories=4)
    (text,) = [str(warning.message) for warning in seen]
    assert "name (48 different values in 48 rows: a text or an identifier)" in text
    assert "empty (all values are missing)" in text
    assert "list (holds list values)" in text
    assert re.search(r"weight \(numbers but for \d values such as '5 kg'; correct these\)", text)
    assert [column.name for column in bundle.encoder.columns if column.other] == ["many"]
    assert len([f for f in bundle.encoder.features if f.startswith("many")]) == 5
    codes = from_table({"zip": [1, 2, 3, 4] * 5, "y": [0, 1, 1, 0] * 5}, "y", categories=["zip"])
    assert codes.encoder.features == ("zip=1", "zip=2", "zip=3", "zip=4")
    with pytest.raises(DataError, match=r"learn from: zip .16 different"):
        from_table({"zip": range(20), "y": [0, 1] * 10}, "y", categories=["zip"])
    with pytest.raises(DataError, match="no column to learn from: name"):
        from_table({key: table[key] for key in ("name", "y")}, "y")
    with pytest.raises(DataError, match="'x' is infinite, not finite in sample"):
        from_table({"x": [1.0, np.inf] * 5, "y": [0, 1] * 5}, "y")


def test_ids_are_kept_and_told_apart():
    ids = [f"p{i}" for i in range(8)]
    for bundle in (
        from_table({**ROWS, "key": ids}, "ill", id="key"),
        from_table(pd.DataFrame(ROWS, index=ids), "ill"),
        from_table(ROWS, "ill", id=ids),
    ):
        assert sorted([*bundle.train.names, *bundle.test.names]) == ids
        assert "key" not in bundle.encoder.features
        assert bundle.train.texts[0].startswith("age=")
    with pytest.raises(DataError, match=r"the id 'p0' occurs twice \(rows 0 and 7\)"):
        from_table(ROWS, "ill", id=[*ids[:7], "p0"])
    with pytest.raises(DataError, match="8 samples, but 2 ids"):
        from_table(ROWS, "ill", id=["a", "b"])


def test_a_split_column_and_test_rows_divide_the_data():
    split = ["train"] * 5 + ["test", "val", "val"]
    bundle = from_table({**ROWS, "split": split}, "ill")
    assert [len(part) for part in (bundle.train, bundle.tests["test"], bundle.tests["val"])] == [
        5, 1, 2,
    ]  # fmt: skip
    assert bundle.validation is bundle.tests["val"]
    assert bundle.clean_test
    tested = from_table(ROWS, "ill", test=pd.DataFrame(ROWS)[:3])
    assert (len(tested.train), len(tested.test)) == (8, 3)
    assert list(tested.test.names) == ["test 0", "test 1", "test 2"]
    pair = from_table(ROWS, "ill", test=(pd.DataFrame(ROWS)[:2].drop(columns="ill"), ["no", "yes"]))
    assert pair.test.labels.tolist() == [0, 1]


# files ------------------------------------------------------------------------------------------


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def csv(path, text):
    return f"csv:{write(path, text)}"


def test_csv_and_parquet_agree_with_the_frame(tmp_path):
    frame = pd.DataFrame({**ROWS, "key": range(100, 108)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    expected = from_table(frame, "ill", id="key")
    for spec in (f"csv:{tmp_path / 't.csv'}", f"parquet:{tmp_path / 't.parquet'}"):
        found = load(spec, label="ill", id="key")
        assert found.encoder == expected.encoder
        assert list(found.train.names) == list(expected.train.names)
        assert torch.equal(found.train.data, expected.train.data)
        assert found.notes[0].startswith("read as a table: 8 rows, label 'ill' with 2 classes")


def test_files_of_other_habits(tmp_path):
    rows = "\n".join(f"{i},5;{'ab'[i % 2]};x" for i in range(10))
    table = read_csv(write(tmp_path / "a.csv", f"größe;art;leer\n\n{rows}\n"))
    assert table["größe"].tolist()[:2] == ["0.5", "1.5"]
    assert table.lines.tolist()[:2] == [3, 4]
    tabs = load(csv(tmp_path / "b.tsv", "x\ty\n" + "1\ta\n2\tb\n" * 5), label="y")
    assert tabs.input_shape == (1,)


@sweep(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n", {}, "which column holds the labels.*--label COLUMN.*are: a, b"),
        ("a,b\n1,2\n", {"label": "c"}, "no column 'c'"),
        ("age,b\n1,2\n", {"label": "agee"}, "did you mean 'age'"),
        ("a,b\n1,2,3\n", {"label": "b"}, "line 2: has more fields .3. than the header .2."),
        ("a,b\n1\n", {"label": "b"}, "line 2: has fewer fields"),
        ("a,a\n1,2\n", {"label": "a"}, "column 'a' occurs twice"),
        ("1,2\n3,4\n", {"label": "1"}, "first line holds numbers"),
        ("", {}, "is empty"),
        ("a,b\n", {"label": "b"}, "no rows"),
        ("a,b\n1,x\n2,\n3,y\n", {"label": "b"}, "1 label is missing .line 3."),
        ("a,b\n1,0.5\n2,1\n", {"label": "b"}, "0.5 in line 2.*for classification"),
        ("a,b\n1,x\n2,y\n", {"label": "b", "size": 32}, "size is for images, and this is a table"),
        ("a,b\n1,x\n2,y\n", {"label": "b", "text": "c"}, "no column 'c'"),
        ("a,b\n1,x\n2,y\n", {"label": "b", "ignore": ["c"]}, "no column 'c'"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, options, message):
    with pytest.raises(DataError, match=message):
        load(csv(tmp_path / "t.csv", text), **options)


def test_files_that_are_none(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        load(f"csv:{tmp_path / 't.csv'}", label="b")
    write(tmp_path / "t.parquet", "no parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load(f"parquet:{tmp_path / 't.parquet'}", label="b")
    with pytest.raises(DataError, match="there is no such file"):
        load(f"parquet:{tmp_path / 'absent'}", label="b")


def test_a_list_of_images_is_told_from_a_table(tmp_path):
    for i in range(6):
        Image.new("RGB", (8, 8), (i, i, i)).save(tmp_path / f"{i}.png")
    rows = "".join(f"{i}.png,{1 + i % 2},{i}\n" for i in range(6))
    images = load(csv(tmp_path / "l.csv", "file,kind,size\n" + rows), label="kind")
    assert images.input_shape == (3, 8, 8)
    assert images.class_names == ("1", "2")
    assert images.notes == ("read as a list of 6 images (column 'file')",)
    named = load(csv(tmp_path / "m.csv", "f,label,s\n" + rows), image="f")
    assert named.train.names == images.train.names
    words = "".join(f"w{i % 2},{i % 2}\n" for i in range(30))
    table = load(csv(tmp_path / "n.csv", "path,label\n" + words))
    assert table.encoder.features == ("path=w0", "path=w1")


# texts ------------------------------------------------------------------------------------------

TEXTS = [f"the {'good' if i % 2 else 'bad'} film number {i % 5}" for i in range(40)]


def test_texts_are_scikit_learns_tf_idf_of_the_training_texts():
    bundle = from_texts(TEXTS, np.arange(40) % 2, max_features=6)
    kept = [int(name) for name in bundle.train.names]
    held = [int(name) for name in bundle.test.names]
    reference = TfidfVectorizer(sublinear_tf=True, max_features=6)
    reference.fit([TEXTS[i] for i in kept])
    for split, places in ((bundle.train, kept), (bundle.test, held)):
        wanted = reference.transform([TEXTS[i] for i in places]).toarray()
        found = split.raw(torch.arange(len(split))).numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert isinstance(bundle.train, SparseSplit)
    assert bundle.recipe == "as-given"  # no jitter: it would drown features of length 1
    assert bundle.train.texts[0] == TEXTS[kept[0]]


def test_texts_in_a_file_and_in_several_columns(tmp_path):
    frame = pd.DataFrame({"title": TEXTS, "body": [None, "more words"] * 20, "y": [0, 1] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    one = load(f"csv:{tmp_path / 't.csv'}", label="y", text="title")
    assert one.encoder.terms == from_table(frame, "y", text="title").encoder.terms
    assert one.notes[1] == "columns not used beside the text: body"
    two = load(f"csv:{tmp_path / 't.csv'}", label="y", text=["title", "body"])
    assert set(two.encoder.terms) - set(one.encoder.terms) == {"more", "words"}
    chars = load(f"csv:{tmp_path / 't.csv'}", label="y", text="title", analyzer="char",
                 ngrams=[1, 2])  # fmt: skip
    assert max(map(len, chars.encoder.terms)) == 2
    with pytest.raises(DataError, match="no word occurs in several of the texts"):
        from_texts(["", "?"] * 10, [0, 1] * 10)
    with pytest.raises(DataError, match="'y' holds int values, no text"):
        from_table(frame, "title", text="y", class_names=sorted(set(TEXTS)))
    with pytest.raises(DataError, match="two lengths from 1"):
        from_texts(TEXTS, [0, 1] * 20, ngrams=(2, 1))


# other containers -------------------------------------------------------------------------------


def test_sparse_matrices_equal_dense_ones():
    rng = np.random.default_rng(0)
    dense = (rng.random((30, 12)) < 0.2) * rng.random((30, 12))
    labels = np.arange(30) % 3
    for make in (sp.csr_matrix, sp.coo_matrix, sp.csc_array):
        bundle = from_samples(make(dense), labels)
        np.testing.assert_allclose(whole(bundle), dense, rtol=1e-6)
        batch = next(iter(Loader(bundle.train, bundle=bundle, batch_size=5)))
        assert batch.views[0].shape == (5, 12)
    twice = sp.csr_matrix(([1.0, 2.0], [0, 0], [0, 2, 2]), shape=(2, 2))  # entries add up
    assert SparseSplit(twice, labels[:2]).raw(torch.tensor([0, 1])).tolist() == [[3, 0], [0, 0]]
    with pytest.raises(DataError, match="not finite in sample 1"):
        from_samples(sp.csr_matrix([[1.0], [np.nan]]), [0, 1])


def test_lists_of_every_kind():
    labels = ["a", "b"] * 10
    assert from_samples([[1, 2.5], [3, 4]] * 10, labels).input_shape == (2,)
    assert from_samples([[1, "x"], [3, None]] * 10, labels).encoder.features == (
        "0", "1=x", "1: missing",
    )  # fmt: skip
    assert from_samples(TEXTS[:20], labels).encoder.terms
    assert from_samples(np.array(TEXTS[:20]), labels).encoder.terms
    greys = [np.full((9, 9), i, np.uint8) for i in range(20)]
    assert from_samples(greys, labels).input_shape == (3, 9, 9)
    sizes = [Image.new("RGB", (20 + i, 30)) for i in range(20)]
    mixed = from_samples(sizes, labels, size=100)
    assert mixed.input_shape == (3, 100, 100)
    assert mixed.train.raw(torch.arange(3)).shape == (3, 3, 100, 100)
    batch = next(iter(Loader(mixed.train, bundle=mixed, batch_size=4)))
    assert batch.views[0].shape == (4, 3, 100, 100)


def test_arrays_with_missing_values_are_tables():
    x = np.arange(40.0).reshape(20, 2)
    x[3, 1] = np.nan
    bundle = from_arrays(x, np.arange(20) % 2, x_test=x, y_test=np.arange(20) % 2)
    assert bundle.encoder.features == ("0", "1", "1: missing")
    split = read_inputs(x, {"input_shape": (3,)}, bundle.encoder)
    assert torch.equal(split.raw(torch.arange(20)), bundle.train.data)


def test_datasets_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({
        "text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"]),
    })  # fmt: skip
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1] * 20}, features=features)
    bundle = from_samples(data, text="text")
    assert bundle.class_names == ("neg", "pos")
    assert bundle.encoder.text_columns == ("text",)
    pictures = datasets.Dataset.from_dict(
        {"image": [Image.new("L", (8, 8), i) for i in range(20)], "label": [0, 1] * 10},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")}),
    )
    assert from_samples(pictures, "label").input_shape == (3, 8, 8)
    with pytest.raises(DataError, match="one of them, such as data"):
        from_samples(datasets.DatasetDict({"train": data}), "label")
    with pytest.raises(DataError, match="holds tokens"):
        from_samples(data.add_column("input_ids", [[1]] * 40))


@sweep(
    ("data", "labels", "options", "message"),
    [
        (object(), [0, 1], {}, "cannot read a object as samples"),
        ([], [], {}, "no samples"),
        ([[1, 2], [3]], [0, 1], {}, "equally many values"),
        (np.zeros((4, 2)), None, {}, "needs labels"),
        (np.zeros((4, 2)), [0, 1, 0, 1], {"text": "a"}, "these data have no columns"),
        (np.zeros((4, 2)), [0, 1, 0, 1], {"test": np.zeros((4, 2))}, "a pair"),
        (np.array(["a", 1], dtype=object), [0, 1], {}, "expected numbers"),
        (pd.Series([1, 2]), [0, 1], {}, "expected a DataFrame, got a Series"),
    ],
)
def test_what_cannot_be_read_says_why(data, labels, options, message):
    with pytest.raises(DataError, match=message):
        from_samples(data, labels, **options)


# 16-bit pictures --------------------------------------------------------------------------------


def test_16_bit_pictures_keep_their_greys(tmp_path):
    ramp = (np.arange(64, dtype=np.uint16) * 1040).reshape(8, 8)
    for name in ("a", "b"):
        for i in range(3):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            Image.fromarray(ramp).save(folder / f"{i}.png")
    bundle = load(f"imagefolder:{tmp_path}")
    wanted = np.round(ramp / 257.0)
    found = bundle.train.raw(torch.tensor([0]))[0]
    assert found.shape == (3, 8, 8)
    np.testing.assert_array_equal(found[0].numpy(), wanted)
    arrays = from_arrays(np.stack([ramp] * 6), [0, 1] * 3)
    np.testing.assert_array_equal(arrays.train.raw(torch.tensor([0]))[0, 0].numpy(), wanted)
    listed = from_samples([Image.fromarray(ramp)] * 6, [0, 1] * 3)
    np.testing.assert_array_equal(listed.train.raw(torch.tensor([0]))[0, 0].numpy(), wanted)
    floats = from_samples([ramp / 65535.0] * 6, [0, 1] * 3)
    np.testing.assert_array_equal(floats.train.raw(torch.tensor([0]))[0, 0].numpy(), wanted)
    with pytest.raises(DataError, match="save it with 8 or 16 bits"):
        from_samples([ramp.astype(np.float32)] * 6, [0, 1] * 3)
