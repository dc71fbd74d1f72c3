"""Lanes: many environments that step side by side, each with episode after episode, in this process or in workers."""
