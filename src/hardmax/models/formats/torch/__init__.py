"""Networks and tensors of torch: modules in memory, files, scripted programs."""
