"""One run on many machines: actors collect blocks of transitions, one learner trains. Ray lives in `ray_link` alone."""
