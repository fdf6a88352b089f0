"""Label corruption as pure functions, and the estimation of unknown noise."""
