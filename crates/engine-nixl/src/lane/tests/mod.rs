//! The lane over a mock of the seam: every failure at every step, and what is left over.

mod bench;
mod random;
mod steps;
mod stuck;
mod world;
