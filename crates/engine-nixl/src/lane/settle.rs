use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use kvtier_core::{Direction, Error, ErrorKind};

use super::Lane;
use super::posted::{Object, Owner, Posted, Step, Target, split};
use super::work::Work;
use crate::agent::Agent;
use crate::capi::Status;
use crate::local::{Local, Staged};
use crate::verdict::{self, HEAD_BYTES, Length};

/// What a finished request says about its work.
enum Outcome {
    /// The block was moved.
    Moved,
    /// It was not: the kind, and why.
    Failed(ErrorKind, String),
    /// The block has to be read once more.
    Reread(Step),
    /// A store failed; the store may say why if it is asked something else.
    StoreFailed(Error),
    /// To a question: there was something to read, or S3's error code.
    Answer(Result<(), String>),
}

impl Lane {
    /// Ends the work of a finished request, or posts the next request for it.
    pub(super) fn settle(
        &mut self,
        posted: Posted,
        mut local: Local,
        result: Result<(), Status>,
        now: Instant,
    ) {
        let Posted { request, owner, step, bytes, give_up, object } = posted;
        let agent = Arc::clone(request.agent());
        if matches!(owner, Owner::GivenUp) {
            self.health.stuck.fetch_sub(1, Ordering::Relaxed);
            self.staging.put_back(split(owner, local).1);
            return;
        }
        let outcome = outcome(step, &mut local, bytes, result);
        if let Outcome::Reread(step) = outcome {
            self.post(&agent, owner, local, step, bytes, object, give_up);
            return;
        }
        let (Some(work), buffer) = split(owner, local) else { return };
        let buffer = match outcome {
            Outcome::StoreFailed(error) => return self.diagnose(&agent, work, buffer, error, object, now),
            Outcome::Moved => self.finish(work, buffer),
            Outcome::Failed(kind, why) => {
                work.fail(kind, why);
                buffer
            }
            Outcome::Answer(answer) => {
                work.answer(answer.as_ref().copied().map_err(String::as_str), self.options.denied_is_absent);
                buffer
            }
            Outcome::Reread(_) => unreachable!("handled above"),
        };
        self.staging.put_back(buffer);
    }

    /// Brings a block that has been moved to its slot; it is completed with the others of this step.
    fn finish(&mut self, work: Work, buffer: Option<Staged>) -> Option<Staged> {
        let Work::Transfer(mut transfer) = work else { unreachable!("only transfers move blocks") };
        if let (Some(buffer), Direction::Load) = (&buffer, transfer.direction()) {
            transfer.copy_in(0, &buffer.bytes()[..transfer.block_bytes()]);
        }
        self.moved.push(transfer);
        buffer
    }

    /// Asks for the object of a store that failed, to learn from the answer why. Without a buffer for that, the work ends
    /// as it is.
    fn diagnose(
        &mut self,
        agent: &Arc<Agent>,
        work: Work,
        buffer: Option<Staged>,
        error: Error,
        object: Object,
        now: Instant,
    ) {
        let buffer = match buffer {
            Some(large_enough) if large_enough.len() >= HEAD_BYTES => Ok(Some(large_enough)),
            Some(_) | None => self.staging.take(agent, HEAD_BYTES),
        };
        let Ok(Some(buffer)) = buffer else { return work.fail_with(error) };
        let limit = now + self.options.request_timeout;
        let give_up = work.deadline().map_or(limit, |deadline| deadline.min(limit));
        let (owner, local) = (Owner::Here(work), Local::Staged(buffer));
        self.post(agent, owner, local, Step::Diagnose(error), HEAD_BYTES, object, give_up);
    }
}

fn outcome(step: Step, local: &mut Local, bytes: usize, result: Result<(), Status>) -> Outcome {
    let target = Target::of(local, bytes);
    let code = || verdict::refusal_code(&target.head());
    match (step, result) {
        (Step::Store, Ok(())) => Outcome::Moved,
        (Step::Store, Err(status)) => Outcome::StoreFailed(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{status}, for which the store gave no reason that can be seen; look at the right to write, and at \
                 req_checksum if the store knows no aws-chunked uploads"
            ),
        )),
        (Step::Load { canary, over, is_second }, Ok(())) => {
            match Length::judge(target.untouched(canary, over), over, is_second) {
                Length::Exact => Outcome::Moved,
                Length::Short => Outcome::Failed(ErrorKind::Corrupt, "the object is too short".to_owned()),
                Length::Long => Outcome::Failed(ErrorKind::Corrupt, "the object is too long".to_owned()),
                Length::Unsure => {
                    Outcome::Reread(Step::Load { canary: canary.complement(), over, is_second: true })
                }
            }
        }
        (Step::Load { .. }, Err(_)) => {
            let (kind, why) = verdict::refused(&code());
            Outcome::Failed(kind, why)
        }
        (Step::Ask, result) => Outcome::Answer(result.map_err(|_| code())),
        (Step::Diagnose(error), result) => match result.err().map(|_| code()).as_deref() {
            None | Some("" | "NoSuchKey" | "InvalidRange") => {
                Outcome::Failed(error.kind(), error.message().to_owned())
            }
            Some(code) => {
                let (kind, why) = verdict::refused(code);
                Outcome::Failed(kind, why)
            }
        },
    }
}
