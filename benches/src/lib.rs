//! What kvtier costs: the benches are in `benches/`; `cargo bench -p kvtier-benches` runs them.
