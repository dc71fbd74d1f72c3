"""Named algorithms and the loss they are composed of."""
