"""Maxima of affine forms as objects: tropical polynomials, rational maps, power diagrams."""
