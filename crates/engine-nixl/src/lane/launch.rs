use std::sync::Arc;
use std::time::Instant;

use kvtier_core::{Direction, Error, ErrorKind, Transfer};
use rand_chacha::rand_core::RngCore;

use super::Lane;
use super::posted::{Object, Owner, Posted, Step, Target, over_bytes, split};
use super::work::Work;
use crate::agent::{Agent, Registration};
use crate::capi::{Memory, Operation, Region};
use crate::local::{Local, host_region};
use crate::request::Request;
use crate::verdict::{Canary, HEAD_BYTES};

/// Most objects registered in one call.
const BATCH_MAX: usize = 256;
/// Largest block, in bytes: what one S3 PutObject takes.
pub(crate) const BLOCK_BYTES_MAX: u64 = 5 << 30;

/// Work that has its memory and waits for its object to be registered.
struct Ready {
    owner: Owner,
    local: Local,
    step: Step,
    bytes: usize,
    region: Region,
    give_up: Instant,
}

/// Memory for the next work.
enum Room {
    Buffer(Local),
    /// Its own slot.
    Slot,
    /// Others must end first.
    None,
}

impl Lane {
    /// Posts queued work while there is room, in batches: the registration of an object costs a tenth when it is
    /// shared, and the threads have enough to do until then.
    pub(super) fn launch(&mut self, now: Instant) {
        let room = self.options.window.saturating_sub(self.posted.len());
        let spare = self.options.window.saturating_sub(self.options.threads);
        if self.queue.is_empty() || room < (spare / 2).max(1) {
            return;
        }
        let Some(agent) = self.agent(now) else {
            self.fail_queue("NIXL is being started again after its threads were stuck");
            return;
        };
        let ready = self.prepare(&agent, room.min(BATCH_MAX), now);
        if ready.is_empty() {
            return;
        }
        let regions = ready.iter().map(|ready| ready.region.clone()).collect();
        match Registration::new(&agent, Memory::Object, regions) {
            Ok(batch) => {
                let batch = Arc::new(batch);
                for (index, ready) in ready.into_iter().enumerate() {
                    let object = Object { batch: Arc::clone(&batch), index };
                    let Ready { owner, local, step, bytes, give_up, region: _ } = ready;
                    self.post(&agent, owner, local, step, bytes, object, give_up);
                }
            }
            Err(status) => {
                for ready in ready {
                    self.refuse(
                        ready.owner,
                        ready.local,
                        &format!("its object cannot be registered: {status}"),
                    );
                }
            }
        }
    }

    /// Gives memory to the next `max` works, as far as there is memory.
    fn prepare(&mut self, agent: &Arc<Agent>, max: usize, now: Instant) -> Vec<Ready> {
        let mut ready = Vec::new();
        while ready.len() < max
            && let Some(work) = self.queue.pop_front()
        {
            match self.room_for(agent, &work) {
                Ok(Room::Slot) => ready.extend(self.ready_direct(agent, work, now)),
                Ok(Room::Buffer(local)) => ready.push(self.ready_staged(agent, work, local, now)),
                Ok(Room::None) => {
                    self.queue.push_front(work);
                    break;
                }
                Err(error) => work.fail_with(error),
            }
        }
        ready
    }

    fn room_for(&mut self, agent: &Arc<Agent>, work: &Work) -> Result<Room, Error> {
        let bytes = match work {
            Work::Transfer(transfer) if transfer.block_bytes() as u64 > BLOCK_BYTES_MAX => {
                let why = format!(
                    "{work}: a block of more than {BLOCK_BYTES_MAX} bytes is no S3 object of one part"
                );
                return Err(Error::new(ErrorKind::Unsupported, why));
            }
            Work::Transfer(_) if self.options.zero_copy => return Ok(Room::Slot),
            Work::Transfer(transfer) => transfer.block_bytes() + over_bytes(transfer.block_bytes()),
            Work::Lookup(_) | Work::Check(..) => HEAD_BYTES,
        };
        Ok(self.staging.take(agent, bytes)?.map_or(Room::None, |staged| Room::Buffer(Local::Staged(staged))))
    }

    fn ready_staged(&mut self, agent: &Arc<Agent>, work: Work, mut local: Local, now: Instant) -> Ready {
        let limit = now + self.options.request_timeout;
        let give_up = work.deadline().map_or(limit, |deadline| deadline.min(limit));
        let (step, bytes) = match &work {
            Work::Transfer(transfer) => {
                let block = transfer.block_bytes();
                match transfer.direction() {
                    Direction::Store => {
                        if let Target::Buffer(buffer) = Target::of(&mut local, block) {
                            transfer.copy_out(0, buffer);
                        }
                        (Step::Store, block)
                    }
                    Direction::Load => (self.load_step(over_bytes(block)), block + over_bytes(block)),
                }
            }
            Work::Lookup(_) | Work::Check(..) => (Step::Ask, HEAD_BYTES),
        };
        let region = object_region(agent, &work, bytes);
        Ready { owner: Owner::Here(work), local, step, bytes, region, give_up }
    }

    fn ready_direct(&mut self, agent: &Arc<Agent>, work: Work, now: Instant) -> Option<Ready> {
        let Work::Transfer(transfer) = work else { unreachable!("only transfers go without a buffer") };
        let registration = match self.direct_registration(agent, &transfer) {
            Ok(registration) => registration,
            Err(error) => {
                Work::Transfer(transfer).fail_with(error);
                return None;
            }
        };
        let step = match transfer.direction() {
            Direction::Store => Step::Store,
            Direction::Load => self.load_step(0),
        };
        let (bytes, work) = (transfer.block_bytes(), Work::Transfer(transfer));
        let region = object_region(agent, &work, bytes);
        let Work::Transfer(transfer) = work else { unreachable!("it was put there above") };
        let local = Local::Direct(transfer, registration);
        Some(Ready { owner: Owner::InRequest, local, step, bytes, region, give_up: now })
    }

    fn load_step(&mut self, over: usize) -> Step {
        let mut pattern = [0; 16];
        self.random.fill_bytes(&mut pattern);
        Step::Load { canary: Canary::new(pattern), over, is_second: false }
    }

    /// The caller's memory, registered once for as long as its transfers come.
    fn direct_registration(
        &mut self,
        agent: &Arc<Agent>,
        transfer: &Transfer,
    ) -> Result<Arc<Registration>, Error> {
        let range = transfer.memory_range();
        if let Some((known, registration)) = &self.direct
            && *known == range
        {
            return Ok(Arc::clone(registration));
        }
        let registration = Registration::new(agent, Memory::Host, vec![host_region(range.0, range.1)]);
        let registration = Arc::new(registration.map_err(|status| {
            Error::new(ErrorKind::Unavailable, format!("the host memory cannot be registered: {status}"))
        })?);
        self.direct = Some((range, Arc::clone(&registration)));
        Ok(registration)
    }

    /// Starts one request.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request, each used once")]
    pub(super) fn post(
        &mut self,
        agent: &Arc<Agent>,
        owner: Owner,
        mut local: Local,
        step: Step,
        bytes: usize,
        object: Object,
        give_up: Instant,
    ) {
        let operation = match &step {
            Step::Store => Operation::Write,
            Step::Load { .. } | Step::Ask | Step::Diagnose(_) => Operation::Read,
        };
        if operation == Operation::Read {
            let mut target = Target::of(&mut local, bytes);
            target.clear_head();
            if let Step::Load { canary, over, .. } = step {
                target.mark_end(canary, over);
            }
        }
        match Request::post(agent, operation, local, bytes, (&object.batch, object.index)) {
            Ok(request) => self.posted.push(Posted { request, owner, step, bytes, give_up, object }),
            Err((local, status)) => self.refuse(owner, local, &format!("NIXL does not take it: {status}")),
        }
    }

    /// Ends work that could not be started.
    fn refuse(&mut self, owner: Owner, local: Local, why: &str) {
        let (work, buffer) = split(owner, local);
        self.staging.put_back(buffer);
        if let Some(work) = work {
            work.fail(ErrorKind::Unavailable, why);
        }
    }
}

/// The work's object under a new name, large enough for every read of it.
fn object_region(agent: &Agent, work: &Work, bytes: usize) -> Region {
    let (bytes, key) = (bytes.max(HEAD_BYTES), Some(work.key().clone()));
    Region { address: 0, bytes, device: agent.next_device(), key }
}
