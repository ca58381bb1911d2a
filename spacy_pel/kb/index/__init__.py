try:
    import faiss  # noqa: F401
except ImportError as error:
    raise ImportError('faiss is missing: python -m pip install "spacy-pel[cpu]", or "spacy-pel[gpu]"') from error
