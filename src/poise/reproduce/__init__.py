"""The paper's tables, made again."""
