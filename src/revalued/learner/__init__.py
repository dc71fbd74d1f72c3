"""The learner and its two ways to update: plainly with PyTorch, and in C."""
