"""Suites of tasks: the control suite, MetaWorld, Gymnasium's registry, environments of the user's own, toys."""
