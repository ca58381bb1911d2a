"""A trained pipeline whose entity_ruler knows every mention of `tiny.SENTENCES`."""

import pytest
from tiny import SENTENCES, make_kb, make_pipeline, train, write_encoder


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    path = tmp_path_factory.mktemp("linking")
    nlp, component, examples, optimizer = make_pipeline(write_encoder(path / "encoder"), make_kb(path / "kb"))
    train(nlp, examples, optimizer, steps=2)
    component.index(progress=False)
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "X", "pattern": form} for _, mentions in SENTENCES for form in mentions])
    nlp.to_disk(path / "linker")
    return path / "linker"
