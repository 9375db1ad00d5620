"""One page in HTML that shows every result, with its caption and verdict."""
