"""Error bounds of compiled transformers: at a positive temperature, and in float32."""
