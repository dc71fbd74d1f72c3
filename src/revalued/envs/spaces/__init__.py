"""Spaces: from what an environment offers to flat observations and factorised actions, and back."""
