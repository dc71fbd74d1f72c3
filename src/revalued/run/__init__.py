"""A run on disk: starting it, its folder, its checkpoints, reading it back, what it tells."""
