"""stepscope: see what happens inside a PyTorch training run, in the tracker you already use."""
