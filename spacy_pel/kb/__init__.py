"""What mentions are linked to: a folder of entity records and their vectors."""
