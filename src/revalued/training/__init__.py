"""Training: the loop, greedy test episodes, callbacks, and actors on other machines."""
