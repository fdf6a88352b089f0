"""Runs on data of one's own predict on new data in any of its forms, all alike."""

from __future__ import annotations

import json
import pickle
import signal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from PIL import Image

import edgemask as em
from edgemask.engine import evaluate, export, load_run, predict
from edgemask.engine.deploy import read_weights
from edgemask.errors import UserError
from sweeps import sweep

RNG = np.random.default_rng(0)
QUIET = {"log": {"trackers": [], "thumbnails": 0, "checkpoint_epochs": 0}}
COUNT = 60
TABLE = pd.DataFrame({
    "key": [f"p{i}" for i in range(COUNT)],
    "age": np.where(np.arange(COUNT) % 7 == 0, np.nan, RNG.normal(40, 9, COUNT)),
    "sex": RNG.choice(["m", "f"], COUNT),
    "grade": np.arange(COUNT) % 3 + 1,
})  # fmt: skip
TEXTS = [f"{('apple', 'bread', 'cheese')[i % 3]} with word{i % 5}" for i in range(COUNT)]


def fit(path, data, labels=None, **options):
    return em.fit(data, labels, epochs=2, batch_size=16, settings=QUIET, out=path, **options)


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    return fit(tmp_path_factory.mktemp("table") / "run", TABLE, "grade", id="key")


def test_all_forms_of_a_table_give_the_same(table_run, tmp_path):
    wanted = table_run.predict_proba(TABLE)
    assert wanted.shape == (COUNT, 3)
    np.testing.assert_allclose(wanted.sum(1), 1, atol=1e-6)
    TABLE.to_csv(tmp_path / "new.csv", index=False)
    TABLE.to_parquet(tmp_path / "new.parquet")
    again = load_run(table_run.path)
    for inputs in (
        pl.from_pandas(TABLE),
        TABLE.drop(columns=["grade", "key"]),
        TABLE.to_dict("list"),
        TABLE.to_dict("records"),
        str(tmp_path / "new.csv"),
        tmp_path / "new.parquet",
    ):
        np.testing.assert_array_equal(again.predict_proba(inputs), wanted)
    found = predict(again, tmp_path / "new.csv")
    assert found.inputs == tuple(TABLE["key"])
    labels = again.predict(TABLE)
    assert labels.dtype.kind == "i"
    assert set(labels) <= {1, 2, 3}  # as they were given, not as class numbers
    assert labels.tolist() == (wanted.argmax(1) + 1).tolist()
    assert again.class_names == ("1", "2", "3")


def test_names_of_samples_reach_the_results(table_run):
    samples = table_run.samples
    assert set(samples["name"]) < set(TABLE["key"])
    first = TABLE.set_index("key").loc[str(samples["name"][0])]
    assert f"sex={first['sex']}" in str(samples["text"][0])
    assert first["grade"] == samples["given"][0] + 1


def test_the_preprocessing_is_plain_json_beside_the_weights(table_run, tmp_path):
    _, card = read_weights(table_run.path / "model.safetensors")
    assert json.loads(json.dumps(card["encoder"])) == card["encoder"]
    assert [column["name"] for column in card["encoder"]["columns"]] == ["age", "sex"]
    assert "the model does not include this step" in card["scale"]
    for path in table_run.path.rglob("*"):
        assert path.suffix not in (".pkl", ".pickle", ".joblib")
    export(table_run, tmp_path / "m.pt2", format="torch")
    extra = {"edgemask.json": ""}
    program = torch.export.load(tmp_path / "m.pt2", extra_files=extra).module()
    about = json.loads(extra["edgemask.json"])
    vectors = em.data.encoders.read_encoder(about["encoder"]).encode(
        em.data.columns.columns_of(TABLE)
    )
    found = torch.softmax(program(torch.from_numpy(vectors)), 1).detach().numpy()
    np.testing.assert_allclose(found, table_run.predict_proba(TABLE), atol=1e-5)


def test_testing_on_other_rows_uses_the_encoder_of_the_run(table_run, tmp_path):
    part = TABLE[20:50]
    part.to_csv(tmp_path / "part.csv", index=False)
    wanted = float((table_run.predict(part) == part["grade"]).mean())
    for data in (f"csv:{tmp_path / 'part.csv'}", (part, part["grade"])):
        found = evaluate(table_run, data=data)
        assert found["samples"] == 30
        assert found["test/accuracy"] == pytest.approx(wanted)
    part.rename(columns={"grade": "g"}).to_csv(tmp_path / "g.csv", index=False)
    assert evaluate(table_run, data=f"csv:{tmp_path / 'g.csv'}", label="g")["samples"] == 30
    with pytest.raises(UserError, match="no column 'grade'"):
        evaluate(table_run, data=f"csv:{tmp_path / 'g.csv'}")
    with pytest.raises(UserError, match="the preprocessing of these data is not that of"):
        evaluate(table_run, data=em.data.from_table(part, "grade", id="key"))


def test_other_rows_or_ways_of_reading_are_another_run(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    spec = f"csv:{tmp_path / 't.csv'}"

    def name(data=spec, labels="grade", **options):
        options = {"id": "key", "model": "mlp(hidden=[8])", **options}
        return em.fit(data, labels, dry_run=True, **options).plan["config hash"]

    first = name()
    assert name() == first
    ways = {first, name(id=None, set=["data.options.ignore=[key]"]), name(id=None, text="key"),
            name(set=["data.options.test_fraction=0.3"]), name(labels="sex")}  # fmt: skip
    assert len(ways) == 5
    changed = TABLE.copy()
    changed.loc[3, "age"] = 41.0
    assert name(data=TABLE) != name(data=changed)
    changed.to_csv(tmp_path / "t.csv", index=False)
    assert name() != first


def test_texts_by_list_column_and_file(tmp_path):
    labels = [("fruit", "bakery", "dairy")[i % 3] for i in range(COUNT)]
    run = fit(tmp_path / "run", TEXTS, labels)
    wanted = run.predict_proba(TEXTS)
    again = load_run(run.path)
    (tmp_path / "new.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    pd.DataFrame({"text": TEXTS}).to_csv(tmp_path / "new.csv", index=False)
    for inputs in (np.array(TEXTS), pd.Series(TEXTS), tmp_path / "new.txt",
                   str(tmp_path / "new.csv"), {"text": TEXTS}):  # fmt: skip
        np.testing.assert_allclose(again.predict_proba(inputs), wanted, atol=1e-6)
    assert again.predict("apple with word1").shape == (1,)
    assert set(again.predict(TEXTS)) <= {"fruit", "bakery", "dairy"}
    assert run.samples["text"][0] in TEXTS
    assert again.predict([]).shape == (0,)


def test_sparse_matrices_booleans_and_missing_values(tmp_path):
    dense = (RNG.random((COUNT, 9)) < 0.3) * 1.0
    labels = dense[:, 0] > 0
    run = fit(tmp_path / "sparse", sp.csr_matrix(dense), labels)
    found = load_run(run.path)
    np.testing.assert_allclose(
        found.predict_proba(sp.csc_matrix(dense)), run.predict_proba(dense), atol=1e-6
    )
    assert found.predict(dense).dtype == bool
    dense[3, 4] = np.nan
    gaps = fit(tmp_path / "gaps", dense, labels)
    np.testing.assert_array_equal(gaps.predict_proba(dense), gaps.predict_proba(dense.tolist()))


def test_pictures_of_any_size_and_depth(tmp_path):
    grey = [(np.full((12, 12), 3000 * (i % 2) + 20000 + i)).astype(np.uint16) for i in range(20)]
    pictures = [Image.fromarray(pixels) for pixels in grey]
    run = fit(tmp_path / "run", pictures, ["dark", "light"] * 10, model="small-cnn(hidden=8)")
    wanted = run.predict_proba(pictures)
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number:02}.png")
    pd.DataFrame({"file": [f"{i:02}.png" for i in range(20)]}).to_csv(tmp_path / "l.csv")
    for inputs in (grey, [tmp_path / f"{i:02}.png" for i in range(20)], tmp_path / "l.csv"):
        np.testing.assert_allclose(run.predict_proba(inputs), wanted, atol=1e-6)
    assert run.predict_proba(pictures[0]).shape == (1, 2)


@sweep(
    ("inputs", "message"),
    [
        ({"age": [1.0]}, "the columns 'sex' of the training data are missing"),
        ("absent.csv", "there is no such file"),
        (np.zeros((2, 3)), "the columns 'age', 'sex' of the training data are missing"),
        (3, "expected rows"),
    ],
)
def test_what_does_not_fit_the_model_is_named(table_run, inputs, message):
    with pytest.raises(UserError, match=message):
        table_run.predict(inputs)


def test_arrays_have_no_names_of_columns(tmp_path):
    x = RNG.random((COUNT, 2))
    run = fit(tmp_path / "run", x, np.arange(COUNT) % 2)
    np.testing.assert_array_equal(
        run.predict_proba(pd.DataFrame(x)), run.predict_proba(x.astype(np.float32))
    )
    with pytest.raises(UserError, match=r"takes arrays .predict --npz FILE., no files"):
        run.predict("some.csv")
    with pytest.raises(UserError, match="without names of columns; give as many columns"):
        run.predict(pd.DataFrame({"a": [1]}))


def test_labels_that_cannot_be_learned_are_refused_before_training(tmp_path):
    for labels, words in (
        ([0.5] * COUNT, "EdgeMask is for classification"),
        ([["a", "b"]] * COUNT, "multi-label"),
        ([None] + [1, 2, 3] * 20, "1 label is missing"),
    ):
        with pytest.raises(UserError, match=words):
            fit(tmp_path / "run", TEXTS if len(labels) == COUNT else [*TEXTS, "x"], labels)
    assert not (tmp_path / "run").exists()


def test_checkpoints_as_often_as_asked_for(tmp_path):
    x, y = RNG.random((COUNT, 2)), np.arange(COUNT) % 2
    runs = {}
    for every in (0, 1, 2):
        settings = {"log": {"trackers": [], "checkpoint_epochs": every}}
        out = tmp_path / str(every)
        runs[every] = em.fit(x, y, epochs=3, batch_size=16, settings=settings, out=out)
        there = sorted(path.name for path in out.glob("checkpoints/*"))
        assert len(there) == {0: 0, 1: 2, 2: 1}[every]  # the last two are kept
        assert len(runs[every].history) == 3
    np.testing.assert_array_equal(runs[0].predict_proba(x), runs[1].predict_proba(x))

    class Stop(em.engine.Observer):
        def on_epoch(self, metrics):
            signal.raise_signal(signal.SIGTERM)

    settings = {"log": {"trackers": [], "checkpoint_epochs": 0}}
    options = {"epochs": 3, "batch_size": 16, "settings": settings, "out": tmp_path / "stopped"}
    with pytest.raises(em.engine.Interrupted):
        em.fit(x, y, observers=[Stop()], **options)
    assert len(em.engine.load_run(tmp_path / "stopped").history) == 1
    again = em.fit(x, y, **options)
    np.testing.assert_array_equal(again.predict_proba(x), runs[1].predict_proba(x))


# transformers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tiny BERT with a tokenizer of its own, in a folder."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "apple", "bread", "cheese", "with",
             *(f"word{i}" for i in range(5))]  # fmt: skip
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    transformers.BertTokenizerFast(vocab={w: i for i, w in enumerate(words)}).save_pretrained(
        folder
    )
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32, num_labels=3,
    )  # fmt: skip
    config.save_pretrained(folder)
    return folder, config


def test_texts_with_a_transformers_model_by_name(bert, tmp_path):
    folder, _ = bert
    labels = np.arange(COUNT) % 3
    run = fit(tmp_path / "run", TEXTS, labels, model=f"hf:{folder}", head="sem")
    frame = pd.DataFrame({"t": TEXTS, "y": labels})
    frame.to_csv(tmp_path / "t.csv", index=False)
    by_file = fit(tmp_path / "file", f"csv:{tmp_path / 't.csv'}", "y", text="t",
                  model=f"hf:{folder}", head="sem")  # fmt: skip
    assert by_file.card["encoder"]["kind"] == "tokens"
    wanted = run.predict_proba(TEXTS)
    np.testing.assert_allclose(by_file.predict_proba(tmp_path / "t.csv"), wanted, atol=1e-6)
    np.testing.assert_allclose(load_run(run.path).predict_proba(TEXTS[:9]), wanted[:9], atol=1e-5)
    export(run, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="there is no tokenizer in"):
        fit(tmp_path / "none", TEXTS, labels, model=f"hf:{tmp_path}")


def test_a_transformers_model_as_an_object(bert, tmp_path):
    import transformers

    _, config = bert
    tokens = RNG.integers(5, 14, (COUNT, 6))
    labels = np.arange(COUNT) % 3
    model = transformers.BertForSequenceClassification(config)
    before = pickle.dumps({key: value.numpy() for key, value in model.state_dict().items()})
    run = fit(tmp_path / "run", tokens, labels, model=model, head="sem")
    assert run.model(torch.from_numpy(tokens[:4])).shape == (4, 3)
    after = pickle.dumps({key: value.numpy() for key, value in model.state_dict().items()})
    assert before == after  # the copy was trained
    assert run.predict_proba(tokens).shape == (COUNT, 3)
    with pytest.raises(UserError, match="has 3 outputs, and the data have 2 classes"):
        fit(tmp_path / "two", tokens, labels % 2, model=model)
    with pytest.raises(UserError, match=r"a text model takes.*token ids"):
        fit(tmp_path / "floats", RNG.random((COUNT, 6)), labels, model=model)
