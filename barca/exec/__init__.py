"""The imperative side: binding inputs, running user code, scheduling calls."""
