"""The search of the core, in the plane and in space: packing, slices, threads, exact splits."""
