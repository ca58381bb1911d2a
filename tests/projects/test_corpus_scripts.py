"""The scripts of projects/corpus, each on what is made here."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from types import ModuleType

import pytest
import srsly
from project_files import PROJECTS, load_script
from typer import Exit

SCRIPTS = PROJECTS / "corpus" / "scripts"
of_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ABSTRACTS = "".join(
    f"{pmid}|t|Fever.\n{pmid}|a|Pain after aspirin.\n{pmid}\t0\t5\tFever\tDisease\tD1\n\n" for pmid in (101, 102, 103)
)


@pytest.fixture
def script(monkeypatch):
    """Imports a script, as it is when it is run: beside the others."""
    monkeypatch.syspath_prepend(SCRIPTS)

    def imported(name: str) -> ModuleType:
        monkeypatch.setitem(sys.modules, name, None)  # so that it is gone again after the test
        return load_script(SCRIPTS / f"{name}.py")

    return imported


@pytest.fixture
def source(script, tmp_path):
    """Seven abstracts in shards of three."""
    (tmp_path / "a.pubtator").write_text(ABSTRACTS)
    module = script("shards")
    module.main(tmp_path / "in", [tmp_path / "a.pubtator"], 7, 3, module.Format.jsonl, module.Mentions.gold)
    return tmp_path / "in"


def read(folder):
    return [record for path in sorted(folder.glob("*.jsonl")) for record in srsly.read_jsonl(path)]


def test_abstracts_are_repeated_under_other_ids(script, source, tmp_path):
    assert [path.name for path in sorted(source.iterdir())] == ["00000.jsonl", "00001.jsonl", "00002.jsonl"]
    records = read(source)
    assert [record["id"] for record in records] == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2", "2-0"]
    assert {record["text"] for record in records} == {"Fever. Pain after aspirin."}
    assert records[0]["ents"] == [{"start": 0, "end": 5, "label": "Disease"}]

    module = script("shards")
    module.main(source, [tmp_path / "a.pubtator"], 2, 5, module.Format.jsonl, module.Mentions.find)
    assert [path.name for path in source.iterdir()] == ["00000.jsonl"] and "ents" not in read(source)[0]
    with pytest.raises(Exit):
        module.main(source, [tmp_path / "none"], 2, 5, module.Format.jsonl, module.Mentions.find)


def test_parquet_shards_hold_the_same(script, source, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    module = script("shards")
    module.main(tmp_path / "p", [tmp_path / "a.pubtator"], 7, 3, module.Format.parquet, module.Mentions.gold)
    assert parquet.read_table(tmp_path / "p").to_pylist() == read(source)
    assert script("identical").texts(source, tmp_path / "p") == {"texts": 7, "lost": 0, "twice": 0}


def test_folders_that_differ_are_told(script, source, tmp_path):
    identical = script("identical")
    for name in ("one", "two"):
        (tmp_path / name / "_reports").mkdir(parents=True)
        for path in source.iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
        (tmp_path / name / "_reports" / "00000.jsonl.json").write_text("{}")
    one, two, output = tmp_path / "one", tmp_path / "two", tmp_path / "m.json"
    identical.main(source, [one, two], output)
    found = srsly.read_json(output)
    assert (found["texts"], found["lost"], found["twice"]) == (7, 0, 0)
    assert found["others"]["two"]["files"] == 4 and found["others"]["two"]["differ"] == []

    (two / "00001.jsonl").unlink()
    (two / "_reports" / "00000.jsonl.json").write_text("{ }")
    (one / "00002.jsonl").write_bytes((one / "00000.jsonl").read_bytes())
    with pytest.raises(Exit):
        identical.main(source, [one, two], output)
    found = srsly.read_json(output)
    assert (found["lost"], found["twice"]) == (1, 3)
    assert found["others"]["two"]["differ"] == ["00001.jsonl", "00002.jsonl", "_reports/00000.jsonl.json"]


WITH_WORKER = """
import multiprocessing, sys, time
if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,), daemon=True)
    worker.start()
    print(worker.pid, flush=True)
    sys.stdin.readline()
"""


@of_linux
def test_workers_are_found_below_their_driver(script, tmp_path):
    processes = script("processes")
    (tmp_path / "driver.py").write_text(WITH_WORKER)
    command = [sys.executable, tmp_path / "driver.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        worker = int(driver.stdout.readline())
        assert processes.workers(driver.pid) == [worker] and processes.is_alive(worker)
        assert worker in processes.descendants(os.getpid())
        held = processes.memory(worker)
        assert 1 < held["Pss"] <= held["Rss"] and held.keys() == set(processes.ROLLUP)
        driver.communicate("\n")
    assert not processes.is_alive(driver.pid) and processes.workers(driver.pid) == []


@of_linux
def test_pages_of_mapped_files_are_counted_by_folder(script, tmp_path):
    processes = script("processes")
    path = tmp_path / "kb" / "vectors"
    path.parent.mkdir()
    path.write_bytes(b"x" * 4 * 1024 * 1024)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert mapped[:].count(b"x") == len(mapped)
        assert processes.mapped(os.getpid(), path.parent) == {"Rss": 4.0, "Pss": 4.0}
        assert processes.mapped(os.getpid(), tmp_path / "k") == {"Rss": 0.0, "Pss": 0.0}


def measured(processes, seconds, rate, anonymous):
    samples = [
        {
            "pid": pid,
            "seconds": at,
            "Rss": 900.0,
            "Pss": 500.0,
            "Pss_Anon": anonymous + at,
            "kb_Rss": 100.0,
            "kb_Pss": 50.0,
        }
        for at in range(0, 101, 10)
        for pid in range(processes)
    ]
    counts = {"texts": 100, "mentions": 2000, "processes": processes, "seconds": seconds, "load_before": 0.1}
    return counts | {"steady_mentions_per_second": rate, "samples": samples}


def test_tables_are_of_what_was_measured(script, tmp_path, capsys):
    table = script("table")
    srsly.write_json(tmp_path / "one.json", measured(1, 200.0, 10.0, 300))
    srsly.write_json(tmp_path / "two.json", measured(2, 125.0, 19.0, 300))
    rows = [{"victim": "worker", "done": done, "lost": 0, "twice": 0, "differ": 0, "redone": 1} for done in (3, 8)]
    srsly.write_json(tmp_path / "kills-ray.json", {"engine": "ray", "rows": [*rows, rows[0] | {"victim": "driver"}]})
    differ = {"two": {"files": 9, "bytes": 1234, "differ": []}}
    srsly.write_json(tmp_path / "identical.json", {"others": differ})
    table.main(table.Part.all, tmp_path, tmp_path / "table.md")
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in (tmp_path / "table.md").read_text().split("\n")
    ]
    assert ["two workers", "100", "2,000", "125", "16 (1.60 ×)", "19 (1.90 ×)", "0.1"] in lines
    assert ["two workers", "335 → 390", "500 → 500", "900", "100", "50"] in lines
    hours = 36_000_000 * 20 / 10 / 3600
    assert ["one process", "20.0", "10", f"{hours:,.0f}", f"{hours / 1000:.1f}"] in lines
    assert ["ray: worker", "2", "3–8", "0", "0", "0", "1"] in lines and ["two workers", "9", "1,234", "0"] in lines
    capsys.readouterr()
    table.main(table.Part.cost, tmp_path, None)
    assert "core hours" in (printed := capsys.readouterr().out) and "SIGKILL" not in printed


def test_steady_speed_leaves_the_start_out(script, tmp_path):
    measure = script("measure")
    reports = tmp_path / "_reports"
    reports.mkdir()
    for second, mentions in enumerate((500, 100, 30, 50)):
        srsly.write_json(reports / f"{second}.json", {"mentions": mentions})
        os.utime(reports / f"{second}.json", (1000 + 10 * second, 1000 + 10 * second))
    assert measure.steady(tmp_path, 1) == pytest.approx(180 / 30)
    assert measure.steady(tmp_path, 2) == pytest.approx(80 / 20)
    assert measure.steady(tmp_path, 4) is None
