"""One process each: a learner that is given an order, and a judge who follows it."""
