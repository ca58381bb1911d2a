"""`spacy pel link` of a folder: shards in, shards out, whoever is killed and whatever is wrong with some."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys

import pytest
import spacy
import srsly
from commands import TIME_LIMIT, gone, started, wait_for
from on_disk import contents
from tiny import SENTENCES, make_linking
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.files.leftovers import alone
from spacy_pel.kb.entity import Entity
from spacy_pel.linking.engines import TRIES

TEXTS = [text for text, _ in SENTENCES]
# A component at whose text "Wait" a worker says which process it is and waits, and which "Die" kills.
CODE = """
import os, pathlib, signal, time
from spacy.language import Language

@Language.component("of_test_link_folder")
def waits(doc):
    if doc.text.startswith("Die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if doc.text.startswith("Wait"):
        flag = pathlib.Path(doc.text.split()[1])
        if not flag.exists():
            flag.with_suffix(".new").write_text(f"{os.getpid()} {os.environ.get('OMP_NUM_THREADS')}")
            flag.with_suffix(".new").rename(flag)
            time.sleep(600)
    return doc
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a pipeline and the code of one of its components."""
    path = tmp_path_factory.mktemp("folder")
    nlp = make_linking(path, steps=2)
    (path / "code.py").write_text(CODE)
    spacy.util.import_file("code_of_test_link_folder", path / "code.py")
    nlp.add_pipe("of_test_link_folder", first=True)
    nlp.to_disk(path / "linker")
    return path


@pytest.fixture
def corpus(tmp_path):
    """Six shards of JSONL, one of them packed and one in a folder below."""
    source = tmp_path / "in"
    for number in range(6):
        lines = [{"id": f"{number}-{i}", "text": TEXTS[(number + i) % 6]} for i in range(10)]
        write(source / ("below" if number == 3 else "") / f"{number}.jsonl{'.gz' if number == 4 else ''}", lines)
    return source


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def link(made, *arguments):
    words = ["link", made / "linker", *arguments, "--code", made / "code.py"]
    return CliRunner().invoke(pel_app, [str(word) for word in words])


def start(made, *arguments):
    return started("link", made / "linker", *arguments, "--code", made / "code.py")


def read(folder):
    """The linked records of all shards, by the names of these."""
    return {
        path.relative_to(folder).as_posix(): [
            json.loads(line) for line in (gzip.open(path) if path.suffix == ".gz" else path.open("rb"))
        ]
        for path in times(folder)
    }


def times(folder):
    """When each linked shard was written."""
    paths = [path for path in folder.rglob("*.jsonl*") if "_reports" not in path.parts]
    return {path: path.stat().st_mtime_ns for path in paths}


def ids(folder):
    return sorted(record["id"] for records in read(folder).values() for record in records)


def test_shards_are_linked_as_files_are_and_once(made, corpus, tmp_path):
    """The same bytes as from `link` of each file; a second run passes over all but what is new."""
    out = tmp_path / "out"
    result = link(made, corpus, out, "--processes", 2)
    assert result.exit_code == 0, result.output
    assert "6 shards: 60 texts with 120 mentions" in result.stderr
    for name in ("0.jsonl", "below/3.jsonl"):
        assert link(made, corpus / name, tmp_path / "one.jsonl", "--force").exit_code == 0
        assert (out / name).read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert len(ids(out)) == len(set(ids(out))) == 60 and len(read(out)["4.jsonl.gz"]) == 10
    manifest = srsly.read_json(out / "_manifest.json")
    assert manifest["counts"] == {"shards": 6, "texts": 60, "mentions": 120, "nil": 0, "broken": 0}
    assert manifest["linker"]["kb"]["entities"] == 12 and not manifest["failed"]

    before = times(out)
    write(corpus / "6.jsonl", [{"id": "6-0", "text": TEXTS[0]}])
    write(corpus / "5.jsonl", [{"id": "5-0", "text": TEXTS[0]}])  # which has changed
    result = link(made, corpus, out)
    assert result.exit_code == 0 and "passed over: 5 of 7" in result.stderr, result.output
    after = times(out)
    changed = {path.name.partition(".")[0] for path in after if after[path] != before.get(path)}
    assert changed == {"5", "6"} and len(ids(out)) == 52
    assert srsly.read_json(out / "_manifest.json")["counts"]["texts"] == 52


def test_broken_records_are_left_out_and_named(made, corpus, tmp_path):
    out = tmp_path / "out"
    lines = [json.dumps({"id": str(i), "text": TEXTS[0]}) for i in range(5)]
    lines[1], lines[3] = "{", json.dumps({"id": "3", "text": None})
    write(corpus / "1.jsonl", lines)
    write(corpus / "2.jsonl", ["{"] * 3)
    (corpus / "4.jsonl.gz").write_bytes((corpus / "4.jsonl.gz").read_bytes()[:-9])
    result = link(made, corpus, out)
    assert result.exit_code == 1, result.output
    assert f"⚠ Linked to {out}: 4 shards: " in result.stderr and "✔" not in result.stderr
    assert f"{corpus / '1.jsonl'}:2: the line is not valid JSON" in result.stderr
    assert f'{corpus / "1.jsonl"}:4: "text" is missing' in result.stderr
    assert f"{corpus / '2.jsonl'}: all its 3 records are broken" in result.stderr
    assert f"✘ {corpus / '4.jsonl.gz'}: is not a whole gzip file" in result.stderr
    assert sorted(read(out)) == ["0.jsonl", "1.jsonl", "5.jsonl", "below/3.jsonl"]
    assert [record["id"] for record in read(out)["1.jsonl"]] == ["0", "2", "4"]
    manifest = srsly.read_json(out / "_manifest.json")
    assert manifest["failed"].keys() == {"2.jsonl", "4.jsonl.gz"} and manifest["counts"]["broken"] == 2
    assert not list(out.rglob(".*.tmp"))

    write(corpus / "2.jsonl", [{"id": "new", "text": TEXTS[0]}])
    write(corpus / "4.jsonl.gz", [{"id": "packed", "text": TEXTS[0]}])
    result = link(made, corpus, out)
    assert result.exit_code == 0 and "passed over: 4 of 6" in result.stderr
    assert "of all shards that are left out: 2" in result.stderr  # counted in the earlier run
    assert {"new", "packed"} <= set(ids(out)) and not srsly.read_json(out / "_manifest.json")["failed"]


def test_shards_without_a_source_are_named_and_not_counted(made, corpus, tmp_path):
    out = tmp_path / "out"
    assert link(made, corpus, out).exit_code == 0
    (corpus / "1.jsonl").unlink()
    (corpus / "0.jsonl").write_text("{broken")
    result = link(made, corpus, out)
    assert result.exit_code == 1 and "2 shards are of an earlier run" in result.stderr
    assert "0.jsonl, 1.jsonl" in result.stderr
    assert json.loads((out / "_manifest.json").read_bytes())["counts"]["shards"] == 4


def test_a_worker_that_is_killed_is_started_again_and_loses_nothing(made, corpus, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    out, flag = tmp_path / "out", tmp_path / "flag"
    write(corpus / "1.jsonl", [*({"id": f"1-{i}", "text": TEXTS[i % 6]} for i in range(9)), waiting("1-9", flag)])
    with start(made, corpus, out, "--processes", 2) as process:
        pid, threads = wait_for(flag).split()
        assert threads == "1"
        assert not (out / "1.jsonl").exists()
        os.kill(int(pid), signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 0, said
    assert said.count("its worker has died (SIGKILL") == 1
    assert ids(out) == sorted(f"{number}-{i}" for number in range(6) for i in range(10))
    assert not list(out.rglob(".*.tmp"))


def test_a_driver_that_is_killed_takes_its_workers_along_and_the_next_goes_on(made, corpus, tmp_path):
    out, flag = tmp_path / "out", tmp_path / "flag"
    write(corpus / "zz.jsonl", [{"id": "zz-0", "text": TEXTS[0]}, waiting("zz-1", flag)])  # the last one
    with start(made, corpus, out) as process:
        pid, _ = wait_for(flag).split()
        done = {path: time for path, time in times(out).items() if not path.name.startswith(".")}
        assert len(done) == 6
        process.kill()
        process.wait()
        assert gone(pid)
    assert list(out.glob(".zz.jsonl.*.tmp")) and not (out / "zz.jsonl").exists()
    result = link(made, corpus, out)
    assert result.exit_code == 0 and "passed over: 6 of 7" in result.stderr, result.output
    assert all(path.stat().st_mtime_ns == time for path, time in done.items())
    assert ids(out) == sorted([*(f"{number}-{i}" for number in range(6) for i in range(10)), "zz-0", "zz-1"])
    assert not list(out.rglob(".*.tmp"))


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_workers_and_keeps_what_is_linked(made, corpus, tmp_path, signal_sent):
    out, flag = tmp_path / "out", tmp_path / "flag"
    write(corpus / "zz.jsonl", [waiting("zz-0", flag)])
    with start(made, corpus, out) as process:
        pid, _ = wait_for(flag).split()
        other = link(made, corpus, out)
        assert other.exit_code == 1 and "another process is saving here" in other.stderr
        process.send_signal(signal_sent)
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 128 + signal_sent
    assert gone(pid) and "Stopped. Linked to" in said and "6 shards" in said and "Traceback" not in said
    assert len(read(out)) == 6 and not list(out.rglob(".*.tmp"))
    assert srsly.read_json(out / "_manifest.json")["counts"]["shards"] == 6


def test_a_shard_that_kills_its_workers_does_not_stop_the_others(made, corpus, tmp_path):
    out = tmp_path / "out"
    write(corpus / "1.jsonl", [{"id": "1-0", "text": "Die now ."}])
    result = link(made, corpus, out, "--processes", 2)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("its worker has died (SIGKILL") == TRIES
    assert f"{corpus / '1.jsonl'}: {TRIES} workers have died at it, the last by SIGKILL" in result.stderr
    assert ids(out) == sorted(f"{number}-{i}" for number in (0, 2, 3, 4, 5) for i in range(10))


def waiting(id, flag):
    return {"id": id, "text": f"Wait {flag} . {TEXTS[0]}"}


def test_a_folder_is_never_of_two_linkers(made, corpus, tmp_path):
    """Another threshold, other settings, other components or a changed KB: refused, and nothing is touched."""
    out = tmp_path / "out"
    nlp = spacy.load(made / "linker")
    assert link(made, corpus, out).exit_code == 0
    (out / "0.jsonl").unlink()
    before = contents(out)

    def tuned(nlp):
        path = nlp.path / "pel_linker" / "cfg"
        srsly.write_json(path, srsly.read_json(path) | {"nil_threshold": 0.9, "saved": None})

    def ruled(nlp):
        nlp.get_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "newborn"}])
        nlp.to_disk(nlp.path)

    def added(nlp):
        nlp.get_pipe("pel_linker").add_entities([Entity("D1", "Newborn")])

    def renamed(nlp):  # the number of entities stays
        linker = nlp.get_pipe("pel_linker")
        linker.update_entities([Entity("D003000", "Clonidine hydrochloride")])

    for change, differs in [(tuned, "tuned"), (ruled, "components"), (added, "kb"), (renamed, "kb")]:
        folder = tmp_path / change.__name__
        folder.mkdir()
        nlp.to_disk(folder / "linker")
        change(spacy.load(folder / "linker"))
        (folder / "code.py").write_text(CODE)
        result = link(folder, corpus, out)
        assert result.exit_code == 1 and f"another linker has begun it (other: {differs})" in result.stderr, change
        assert "name another folder" in result.stderr
    result = link(made, corpus, out, "--keep", "id")
    assert result.exit_code == 1 and "was begun with other settings (keep)" in result.stderr
    assert contents(out) == before

    (tmp_path / "copy").mkdir()
    nlp.to_disk(tmp_path / "copy" / "linker")  # the same linker elsewhere goes on
    (tmp_path / "copy" / "code.py").write_text(CODE)
    result = link(tmp_path / "copy", corpus, out)
    assert result.exit_code == 0 and len(ids(out)) == 60, result.output


def test_a_folder_without_anything_linked_is_begun_anew(made, corpus, tmp_path):
    """As after a command with a mistake in it, at which every shard has failed."""
    out = tmp_path / "out"
    result = link(made, corpus, out, "--text", "txet")
    assert result.exit_code == 1 and f"✘ Nothing was linked to {out}." in result.stderr and "✔" not in result.stderr
    failed = srsly.read_json(out / "_manifest.json")
    assert failed["failed"].keys() >= {"0.jsonl", "below/3.jsonl"} and not times(out)
    srsly.write_json(out / "_manifest.json", failed | {"linker": {"kb": "another"}})
    result = link(made, corpus, out)
    assert result.exit_code == 0 and len(ids(out)) == 60, result.output
    assert f"✔ Linked to {out}: 6 shards: 60 texts with 120 mentions" in result.stderr
    assert srsly.read_json(out / "_manifest.json")["asked"]["text"] == "text"


def test_a_manifest_that_is_none_is_one_line(made, corpus, tmp_path):
    out = tmp_path / "out"
    assert link(made, corpus, out).exit_code == 0
    good = srsly.read_json(out / "_manifest.json")
    for change, error in [
        ({"linker": None}, '"linker" is null, and no JSON object; name another folder'),
        ({"linker": [1]}, '"linker" is [1], and no JSON object'),
        ({"asked": 3}, '"asked" is 3, and no JSON object'),
    ]:
        srsly.write_json(out / "_manifest.json", good | change)
        result = link(made, corpus, out)
        assert result.exit_code == 1 and f"_manifest.json: {error}" in result.stderr, result.output
        assert len(result.stderr.strip().splitlines()) == 1
    srsly.write_json(out / "_manifest.json", good)
    result = link(made, corpus, out)
    assert f"✔ Nothing was left to link to {out}. It has 6 shards: 60 texts with 120 mentions" in result.stderr


def test_a_kb_that_changes_meanwhile_stops_the_run(made, corpus, tmp_path):
    out, flag = tmp_path / "out", tmp_path / "flag"
    spacy.load(made / "linker").to_disk(tmp_path / "linker")
    (tmp_path / "code.py").write_text(CODE)
    write(corpus / "1.jsonl", [waiting("1-0", flag)])
    with start(tmp_path, corpus, out) as process:
        pid, _ = wait_for(flag).split()
        spacy.load(tmp_path / "linker").get_pipe("pel_linker").add_entities([Entity("D1", "Newborn")])
        os.kill(int(pid), signal.SIGKILL)  # 0.jsonl is linked; whatever comes now has another KB
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 1
    assert "no longer, the linker that began here (kb)" in said and list(read(out)) == ["0.jsonl"]


def test_bad_arguments_are_one_line_each_and_write_nothing(made, corpus, tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "full" / "a.txt", ["mine"])
    write(tmp_path / "file", ["mine"])
    for arguments, error in [
        ((tmp_path / "empty", tmp_path / "out"), "has no shards"),
        ((corpus, corpus), "may not lie in each other"),
        ((corpus, corpus / "out"), "may not lie in each other"),
        ((corpus, tmp_path), "may not lie in each other"),
        ((corpus, tmp_path / "full"), "is not empty"),
        ((corpus, "-"), "INPUT is a folder, and so is what is written"),
        ((corpus, tmp_path / "out.jsonl"), "INPUT is a folder, and so is what is written"),
        ((corpus, tmp_path / "file"), "is a file; name a folder"),
        ((corpus, tmp_path / "out", "--format", "jsonl"), "leave out --format"),
        ((corpus, tmp_path / "out", "--engine", "ray", "--gpu-id", 0), "leave out --gpu-id"),
        ((corpus / "0.jsonl", tmp_path / "out.jsonl", "--engine", "local"), "is no folder"),
    ]:
        result = link(made, *arguments)
        assert result.exit_code == 1 and error in result.stderr, result.output
        assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full", "in"]


def test_a_folder_that_another_process_writes_to_is_left_alone(made, corpus, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with alone(out):
        result = link(made, corpus, out)
    assert result.exit_code == 1 and "another process is saving here" in result.stderr
    assert not list(out.iterdir())


def test_what_is_kept_of_no_record_is_named_once(made, corpus, tmp_path):
    write(corpus / "a.jsonl", [{"pmid": 1, "text": TEXTS[0]}, {"text": TEXTS[0]}])
    result = link(made, corpus, tmp_path / "out", "--keep", "pmdi", "--keep", "pmid", "--keep", "id")
    assert result.exit_code == 0
    told = [line for line in result.stderr.splitlines() if "which --keep names" in line]
    assert sorted(line.split("record has ")[1] for line in told) == [
        f'"{key}", which --keep names.' for key in ("id", "pmdi", "pmid")
    ]
    assert [line for line in told if '"id"' in line] == [
        f'⚠ {corpus / "a.jsonl"}: no record has "id", which --keep names.'
    ]


def test_parquet_keeps_its_columns_and_leaves_out_what_is_broken(made, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    texts = [TEXTS[0], None, TEXTS[1]] * 700  # more rows than are linked together
    table = pyarrow.table({"pmid": list(range(2100)), "error": ["mine"] * 2100, "abstract": texts})
    parquet.write_table(table, source / "a.parquet")
    parquet.write_table(table[:0], source / "empty.parquet")
    parquet.write_table(table.drop_columns(["abstract"]), source / "none.parquet")
    (source / "half.parquet").write_bytes((source / "a.parquet").read_bytes()[:2000])
    (source / "nothing.parquet").write_bytes(b"")
    whole = (source / "a.parquet").read_bytes()
    (source / "rotten.parquet").write_bytes(whole[:4] + b"\xff" * 4000 + whole[4004:])
    parquet.write_table(table.append_column("pmid", table["pmid"]), source / "twice.parquet")
    result = link(made, source, out, "--text", "abstract", "--keep", "pmid", "--keep", "error")
    assert result.exit_code == 1, result.output
    assert f'{source / "a.parquet"}:2: "abstract" is missing' in result.stderr
    assert "none.parquet: the batch has no column 'abstract'" in result.stderr
    for name in ("half", "nothing", "rotten"):
        assert f"✘ {source / name}.parquet: is no Parquet that can be read (" in result.stderr
    assert result.stderr.count("); write it again\n") == 6  # each when it fails, and at the end
    assert "twice.parquet: the batch has 2 columns 'pmid'; rename one" in result.stderr
    linked = parquet.read_table(out)
    assert linked.column_names == ["pmid", "error", "ents"] and len(linked) == 1400
    assert linked["pmid"].to_pylist() == [i for i in range(2100) if i % 3 != 1]
    assert set(linked["error"].to_pylist()) == {"mine"}
    first = linked["ents"][0].as_py()
    assert [ent["text"] for ent in first] == ["aspirin", "heart attack"]
    assert first[0]["kb_ents"][0].keys() == {"id", "score"}
    assert parquet.read_schema(out / "empty.parquet").equals(parquet.read_schema(out / "a.parquet"))
    assert parquet.ParquetFile(out / "a.parquet").num_row_groups == 1


def test_parquet_without_pyarrow_says_what_to_install(made, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = link(made, tmp_path / "in", tmp_path / "out")
    assert result.exit_code == 1 and 'pip install "spacy-pel[parquet]"' in result.stderr
    monkeypatch.setitem(sys.modules, "ray", None)
    write(tmp_path / "lines" / "a.jsonl", [{"text": TEXTS[0]}])
    result = link(made, tmp_path / "lines", tmp_path / "out", "--engine", "ray")
    assert result.exit_code == 1 and 'pip install "spacy-pel[ray]"' in result.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_ray_links_as_one_machine_does_and_replaces_a_killed_actor(made, corpus, tmp_path):
    pytest.importorskip("ray")
    out, flag = tmp_path / "out", tmp_path / "flag"
    write(corpus / "1.jsonl", [*({"id": f"1-{i}", "text": TEXTS[i % 6]} for i in range(9)), waiting("1-9", flag)])
    with start(made, corpus, out, "--engine", "ray", "--processes", 2) as process:
        pid, _ = wait_for(flag).split()
        os.kill(int(pid), signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait(timeout=TIME_LIMIT) == 0, said
    assert said.count("its worker has died (ActorDiedError") == 1, said
    assert ids(out) == sorted(f"{number}-{i}" for number in range(6) for i in range(10))
    again = link(made, corpus, out)  # by the other engine: nothing is left to do
    assert again.exit_code == 0 and "passed over: 6 of 6" in again.stderr
    assert link(made, corpus, tmp_path / "local").exit_code == 0
    assert {path.name: path.read_bytes() for path in times(out)} == {
        path.name: path.read_bytes() for path in times(tmp_path / "local")
    }
