use kvtier_core::Error;

/// What becomes of a held transfer.
#[derive(Clone, Debug)]
pub enum TransferEnd {
    /// The block is moved, and the transfer completes with what the store says: a load of a missing
    /// object fails with [`NotFound`](kvtier_core::ErrorKind::NotFound), of a shorter or longer one with
    /// [`Corrupt`](kvtier_core::ErrorKind::Corrupt).
    Perform,
    /// The transfer completes with this error; no byte moves.
    Fail(Error),
    /// The engine forgets to complete, having given the slot's address to nobody: the transfer completes
    /// itself with [`Closed`](kvtier_core::ErrorKind::Closed).
    Drop,
    /// The engine forgets to complete after it [exposed](kvtier_core::Transfer::expose) the slot: the block is
    /// reported as [`Lost`](kvtier_core::ErrorKind::Lost) and the slot quarantined.
    DropExposed,
}

/// What becomes of a held probe.
#[derive(Clone, Debug)]
pub enum ProbeEnd {
    /// The probe is answered with what the store says.
    Perform,
    /// The probe is answered with this error.
    Fail(Error),
    /// The engine forgets to answer: the probe answers itself with
    /// [`Closed`](kvtier_core::ErrorKind::Closed).
    Drop,
}
