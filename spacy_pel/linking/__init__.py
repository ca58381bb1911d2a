from .link_batch import LinkBatch as LinkBatch
