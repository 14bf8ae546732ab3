"""Demonstrators: policies trained by PPO, one per target, whose rollouts are the demonstrations of a domain.

- `ppo`: the method, for many policies at once.
- `policies`: what they learn (`TaskSpec`), and the trained policies as one file (`Demonstrators`).
- `training`: training in a folder, with checkpoints (`train`).
- `demonstrations`: rollouts in MuJoCo (`demonstrate`), and how well they reach their targets (`measure`).
"""
