"""`spacy pel table`: measures of several files as one Markdown table."""

import json
from functools import partial

import pytest
from commands import one_line, pel
from on_disk import contents

run = partial(pel, "table")


@pytest.fixture
def metrics(tmp_path):
    folder = tmp_path / "metrics"
    folder.mkdir()
    dev = {"corpus": "dev.spacy", "n_mentions": 13310, "recall_at_1": 0.81249, "nil_f1": None, "nil_curve": []}
    tfidf = {"n_mentions": 13310, "recall_at_1": 0.5, "nil_f1": 0.25, "mentions_per_second": 982.7}
    for name, values in (("dev", dev), ("baseline-tfidf", tfidf)):
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


def test_a_row_for_each_file_baselines_first(metrics):
    result = run(
        metrics, "--columns", "n_mentions,recall_at_1,nil_f1,mentions_per_second", "--output", metrics / "t.md"
    )
    assert result.exit_code == 0, result.output
    text = (metrics / "t.md").read_text("utf-8")
    assert text in result.output
    assert text.splitlines() == [
        "|  | n_mentions | recall_at_1 | nil_f1 | mentions_per_second |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| baseline-tfidf | 13,310 | 0.500 | 0.250 | 983 |",
        "| dev | 13,310 | 0.812 | – | – |",
    ]


def test_a_row_for_each_measure(metrics):
    result = run(metrics, "--columns", "n_mentions, recall_at_1", "--transpose")
    assert result.output.splitlines()[:4] == [
        "|  | baseline-tfidf | dev |",
        "| --- | ---: | ---: |",
        "| n_mentions | 13,310 | 13,310 |",
        "| recall_at_1 | 0.500 | 0.812 |",
    ]
    assert sorted(path.name for path in metrics.iterdir()) == ["baseline-tfidf.json", "dev.json"]


def test_a_row_for_all_seeds_of_a_run(metrics):
    for seed, recall in ((0, 0.6), (1, 0.9), (12, 0.9)):
        (metrics / f"pb-32-{seed}.json").write_text(
            json.dumps({"n_mentions": 9, "recall_at_1": recall, "nil_f1": None})
        )
    result = run(metrics, "--columns", "n_mentions,recall_at_1,nil_f1", "--over-seeds")
    assert result.output.splitlines()[2:5] == [
        "| baseline-tfidf | 13,310 | 0.500 | 0.250 |",
        "| dev | 13,310 | 0.812 | – |",
        "| pb-32 | 9 | 0.800 (0.600–0.900) | – |",
    ]
    unlike = json.dumps({"n_mentions": 9, "recall_at_1": "much"})
    (metrics / "pb-32-2.json").write_text(unlike)
    assert "a table shows numbers only" in one_line(run(metrics, "--columns", "recall_at_1", "--over-seeds"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": {"steps": 540, "rate": 1e-4}}, '"steps" (2 and 540)'),
        ({"settings": {"steps": 2}}, '"rate" (0.0001 and None)'),
        ({}, '"steps" (2 and None)'),
        ({"settings": [2]}, '"steps" (2 and None)'),
        ({"settings": {"steps": 2, "rate": 1e-4}, "n_mentions": 8}, '"n_mentions" (9 and 8)'),
    ],
)
def test_runs_that_differ_in_more_than_their_seed_are_not_averaged(tmp_path, change, said):
    one = {"n_mentions": 9, "recall_at_1": 0.5}
    for seed, more in ((0, {"settings": {"steps": 2, "rate": 1e-4}}), (1, change)):
        (tmp_path / f"ce-{seed}.json").write_text(json.dumps(one | more))
    line = one_line(run(tmp_path, "--over-seeds", "--columns", "recall_at_1"))
    assert f"ce-0.json and {tmp_path}/ce-1.json differ in {said}" in line and "move it to another folder" in line
    assert run(tmp_path, "--columns", "recall_at_1").exit_code == 0
    (tmp_path / "ce-1.json").write_text(json.dumps(one | {"settings": {"steps": 2, "rate": 1e-4}}))
    assert run(tmp_path, "--over-seeds", "--columns", "recall_at_1").exit_code == 0


def test_the_columns_of_an_evaluation_without_being_named(tmp_path):
    from spacy_pel.evaluation.metrics import link_metrics

    (tmp_path / "dev.json").write_text(json.dumps(link_metrics([], set())))
    result = run(tmp_path)
    assert result.exit_code == 0 and result.output.startswith("|  | n_mentions | n_in_kb | recall_at_1 |")


@pytest.mark.parametrize("column", ["recall", "corpus", "nil_curve"])
def test_an_unknown_column_names_those_that_there_are(metrics, column):
    line = one_line(run(metrics, "--columns", f"recall_at_1,{column}", "--output", metrics / "t.md"))
    assert f'"{column}"' in line and "mentions_per_second, n_mentions, nil_f1, recall_at_1" in line
    assert not (metrics / "t.md").exists()


def test_a_folder_without_measures(tmp_path, metrics):
    assert "spacy pel evaluate" in one_line(run(tmp_path / "nowhere"))
    assert "no measure is named" in one_line(run(metrics, "--columns", ","))
    (metrics / "list.json").write_text("[1]")
    assert "list.json holds no measures" in one_line(run(metrics))
    (metrics / "list.json").write_text("{")
    assert "list.json is not JSON" in one_line(run(metrics))
    (metrics / "list.json").write_text('{"recall_at_1": "high"}')
    assert '"recall_at_1" is "high"' in one_line(run(metrics, "--columns", "recall_at_1"))


def test_the_table_is_none_of_the_measures(metrics, tmp_path):
    before = contents(metrics)
    (tmp_path / "link.md").symlink_to(metrics / "dev.json")
    for output, message in [
        (metrics / "dev.json", "dev.json is one of the files to read too; name another file"),
        (tmp_path / "link.md", "link.md is one of the files to read too; name another file"),
        (metrics / "table.json", "table.json would be read as measures by the next `table`; give it another suffix"),
    ]:
        assert message in one_line(run(metrics, "--columns", "recall_at_1", "--output", output))
    assert contents(metrics) == before
    assert run(metrics, "--columns", "recall_at_1", "--output", tmp_path / "table.json").exit_code == 0
    assert "dev.json is a file: name the folder" in one_line(run(metrics / "dev.json"))
