"""Lanes: many environments that step side by side, each playing episode after episode, in this process or in workers."""
