"""Networks in ONNX files, read as data."""
