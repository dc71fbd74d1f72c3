"""Suites of tasks: the control suite, MetaWorld, ids of Gymnasium, toys."""
