"""What Poise needs from the machine, and nothing about learning.

`storage` writes files that are complete or not there. `workers` runs code in processes of its own. `devices` and
`memory` say what JAX may compute on, `compile_cache` keeps compiled programs, `interrupts` decides between two chunks
of training when to save and when to stop, `imports` reads values from the user's files, `trust` lists the run folders
that may name such files, and `provenance` records where a result comes from. Everything else may import this package;
it imports only `errors`.
"""
