"""The pallas_tpu backend: Google TPUs through JAX's Pallas."""
