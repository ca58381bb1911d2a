"""For `spacy train --code`: registers scispaCy's callback "replace_tokenizer"."""

import scispacy.base_project_code  # noqa: F401
