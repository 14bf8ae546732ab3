"""Raw recordings as demonstrations: SportVU logs of basketball games.

`sportvu` is the import itself, `sportvu_files` reads logs, and `half_court` finds the windows of play in a game. They
use the court's geometry from the basketball domains, so this package is above `domains`; nothing else in `data` is.
"""
