"""Acting: from utilities to actions, greedily or exploring."""
