"""What fresh negatives cost and bring: recall@1 over the seconds of a training with random negatives, with mixed ones
that are refreshed by several schedules, and with random ones and FGSM in place of a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import spacy
import srsly
import typer
from spacy.training import Example
from tqdm import tqdm

from spacy_pel.cli.table import markdown
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.evaluation.scorer import LinkScorer
from spacy_pel.kb.loader import KBFromDisk
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.pretrained import set_encoder
from spacy_pel.training.callbacks import RefreshNegatives
from spacy_pel.training.hardness import BEST, hardness
from spacy_pel.training.memory import keep_freed_memory
from spacy_pel.training.optimizer import AdamW, make_warmup_linear

MODEL = {"@architectures": "spacy_pel.BiEncoder.v1", "mention_length": 40, "entity_length": 24, "aliases": "first"}
AS_PUBLISHED = {"layout": "per_mention", "lexical": None, "resolve_abbreviations": False}
RANDOM, MIXED = ({"@misc": f"spacy_pel.{kind}Negatives.v1", "n": 8} for kind in ("Random", "Mixed"))
FGSM = {"@misc": "spacy_pel.FGSM.v1", "epsilon": 0.002, "layer": "sum"}
FGSM_NORMALISED = FGSM | {"epsilon": 0.01, "layer": "normalised"}
EARLY = (0, 4, 10, 20, 40, 80, 160, 320, 640)  # each gap about twice the one before
ROWS: dict[str, dict[str, Any]] = {  # `every`: see RefreshNegatives; the rest: settings of the linker
    "random": {"every": [0], "negatives": RANDOM},
    "random + FGSM": {"every": [0], "negatives": RANDOM, "adversarial": FGSM},
    "random + FGSM, normalised": {"every": [0], "negatives": RANDOM, "adversarial": FGSM_NORMALISED},
    "mixed, once": {"every": [0], "negatives": MIXED},
    "mixed, every 10": {"every": 10, "negatives": MIXED},
    "mixed, early": {"every": list(EARLY), "negatives": MIXED},
    "mixed, rescored": {"every": [0], "negatives": MIXED | {"rescored": 16}},
    "mixed, frozen entities": {"every": [0], "negatives": MIXED, "freeze_entities": True},
}

app = typer.Typer(help=__doc__)


@dataclass
class Spent:
    """Seconds of what is done inside `with`, by the clock and of all cores."""

    seconds: float = 0.0
    core_seconds: float = 0.0
    _start: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> None:
        self._start = perf_counter(), process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter() - self._start[0]
        self.core_seconds += process_time() - self._start[1]


@app.command()
def run(
    train: Annotated[Path, typer.Argument(help=".spacy with gold mentions")],
    dev: Annotated[Path, typer.Argument(help="The same, for recall")],
    kb: Annotated[Path, typer.Argument(help="A KB folder")],
    encoder: Annotated[Path, typer.Argument(help="A Hugging Face model")],
    output: Annotated[Path, typer.Argument(help="JSON to write")],
    steps: Annotated[int, typer.Option(help="Updates of each training")] = 90,
    batch: Annotated[int, typer.Option(help="Mentions of an update")] = 32,
    points: Annotated[int, typer.Option(help="Times that recall is measured; its seconds do not count")] = 3,
    dev_mentions: Annotated[int, typer.Option(help="Mentions that it is measured on; 0: all")] = 600,
    pool: Annotated[int, typer.Option(help="Entities among which hard negatives are ranked")] = 1000,
    rate: Annotated[float, typer.Option(help="The highest learning rate")] = 2e-4,
    seed: Annotated[int, typer.Option(help="Of all draws")] = 0,
    only: Annotated[str, typer.Option(help="Rows, with semicolons between; empty: all")] = "",
) -> None:
    """Train one linker for each row, and measure recall@1 over the whole KB after equal parts of the steps."""
    keep_freed_memory()
    rows = []
    for name in names_of(only):
        nlp, linker = make_linker(ROWS[name], kb, encoder, seed)
        asked = list(MentionCorpus(dev, window=40, limit=dev_mentions, seed=seed)(nlp))
        batches = islice(batched(MentionCorpus(train, window=40, seed=seed), nlp, batch), steps)
        refresh = RefreshNegatives(ROWS[name]["every"])
        optimizer = AdamW(make_warmup_linear(rate, steps, 0.1))
        live = linker.begin_training().live
        assert len(live.token_rows)  # read once, before the seconds count
        refreshing, stepping, curve, refreshes = Spent(), Spent(), [], 0
        for step, examples in enumerate(tqdm(batches, desc=name, total=steps), 1):
            before = live.index
            with refreshing:
                refresh(nlp, {"step": step - 1, "epoch": 0})
            refreshes += live.index is not before
            with stepping:
                linker.update(examples, sgd=optimizer)
                optimizer.step_schedules()
            if step * points // steps > (step - 1) * points // steps:
                recall = LinkScorer(len(linker.kb), seed)(asked, linker=linker)["nel_recall_at_1"]
                point = {"step": step, "recall_at_1": recall, **how_hard(linker, pool, seed)}
                point["seconds"] = refreshing.seconds + stepping.seconds
                point["core_seconds"] = refreshing.core_seconds + stepping.core_seconds
                curve.append(point)
        rows.append({"row": name, "refreshes": refreshes, "steps": steps, "curve": curve})
        for what, spent in (("refresh", refreshing), ("step", stepping)):
            rows[-1] |= {f"{what}_seconds": spent.seconds, f"{what}_core_seconds": spent.core_seconds}
        typer.echo(rows[-1])
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(
        output, {"seed": seed, "kb": len(linker.kb), "dev_mentions": len(asked), "pool": pool, "rows": rows}
    )


@app.command()
def table(metrics: Annotated[Path, typer.Argument(help="What `run` wrote")]) -> None:
    """Write and print METRICS as Markdown. Seconds are of all cores, which other work beside them hardly changes; hard
    negatives are those of the last batch that was measured, among the pool."""
    found: Any = srsly.read_json(metrics)
    head = ("recall@1", "seconds", "refreshes", "of a refresh", "of a step", "refreshes ÷ steps")
    rows = [["", *head, f"hard in best {BEST}", "mean rank"]]
    for row in found["rows"]:
        last, times = row["curve"][-1], row["refreshes"]
        refresh, steps = row["refresh_core_seconds"], row["step_core_seconds"]
        cells = [f"{last['recall_at_1']:.3f}", f"{last['core_seconds']:,.0f}", str(times)]
        cells += [f"{refresh / times:.2f}" if times else "–", f"{steps / row['steps']:.2f}"]
        cells += [f"{refresh / steps:.2f}" if times else "–"]
        cells += (
            [f"{last['hard_in_best']:.2f}", f"{last['hard_mean_rank']:.1f}"] if "hard_in_best" in last else ["–"] * 2
        )
        rows.append([row["row"], *cells])
    text = (
        f"{markdown(rows)}\n{found['kb']:,} entities, {found['dev_mentions']:,} mentions, a pool of {found['pool']:,}\n"
    )
    metrics.with_suffix(".md").write_text(text, encoding="utf-8")
    typer.echo(text)


@app.command()
def figure(
    metrics: Annotated[Path, typer.Argument(help="What `run` wrote")],
    output: Annotated[Path, typer.Argument(help="Picture without its suffix: .png and .svg are written")],
) -> None:
    """Draw recall@1 over the seconds of training, those of refreshes among them."""
    from matplotlib.figure import Figure

    from spacy_pel.reports.plots import save_figure

    found: Any = srsly.read_json(metrics)
    drawn = Figure(figsize=(8, 4.5), layout="constrained")
    axes = drawn.subplots()
    for row in found["rows"]:
        points = [(point["core_seconds"], point["recall_at_1"]) for point in row["curve"]]
        axes.plot(*zip(*points, strict=True), "o-", label=row["row"], linewidth=1.5)
    axes.set(xlabel="seconds of training, all cores", ylabel="recall@1", xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(drawn, output)


def names_of(only: str) -> list[str]:
    """The rows that `--only` names; all where it is empty.

    Raises:
        BadParameter: It names another.
    """
    names = [one.strip() for one in only.split(";")] if only else list(ROWS)
    if unknown := [name for name in names if name not in ROWS]:
        raise typer.BadParameter(f"there is no row {unknown[0]!r}: choose of {'; '.join(ROWS)}", param_hint="--only")
    return names


def make_linker(row: dict[str, Any], kb: Path, encoder: Path, seed: int) -> tuple[Any, Any]:
    """A pipeline with a linker that has learnt nothing yet, and that linker."""
    spacy.util.fix_random_seed(seed)
    settings = {key: value for key, value in row.items() if key != "every"}
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("pel_linker", config={**AS_PUBLISHED, "model": MODEL, "adversarial": None, **settings})
    linker.set_kb(KBFromDisk(kb)())
    set_encoder(linker.model, HFEncoder(str(encoder), dropout=0.0)())
    return nlp, linker


def batched(corpus: MentionCorpus, nlp: Any, size: int) -> Iterator[list[Example]]:
    """Batches of `size` mentions of the KB, in another order each time that the corpus is through."""
    while True:
        yield from spacy.util.minibatch(corpus(nlp), size)


def how_hard(linker: Any, pool: int, seed: int) -> dict[str, float]:
    """How hard the hard negatives of the latest batch were; nothing where it had none."""
    draw = linker.session.latest_draw
    found = None if draw is None else hardness(draw, pool, seed)
    return {} if found is None else found._asdict()


if __name__ == "__main__":
    app()
