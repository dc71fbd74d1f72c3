"""Looking inside a trained agent: what its critics think along an episode, and a page that shows it."""
