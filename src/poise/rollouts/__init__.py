"""Rollouts: requests (starts and labels), the closed loop with an environment or dynamics, and the actor."""
