"""C over a DSA vendor's library, through TensorIR."""
