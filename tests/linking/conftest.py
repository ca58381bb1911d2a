"""A trained pipeline whose entity_ruler knows every mention of `tiny.SENTENCES`."""

import pytest
from tiny import make_linking


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    path = tmp_path_factory.mktemp("linking")
    make_linking(path, steps=2).to_disk(path / "linker")
    return path / "linker"
