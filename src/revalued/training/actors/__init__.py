"""Actors that collect elsewhere, and the learner that takes in their blocks (Ape-X over Ray)."""
