"""Settings of a linker under the names that scispaCy has for them, so that code for its linker runs on."""

SETTING_OF = {"k": "top_k", "max_entities_per_mention": "max_candidates"}
