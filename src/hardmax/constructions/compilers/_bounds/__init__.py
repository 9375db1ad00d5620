"""How far a compiled transformer may be off: at a temperature, and in float32."""
