//! A small NIXL with a store behind it, which fails on command and notices every handle that is misused or left over.
//! It stands behind the mock of the seam.
#![expect(unsafe_code, reason = "plays the C++ side, which reads and writes memory by its address")]

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::capi::{
    AgentHandle, BackendHandle, Block, Memory, MockNixl, Nixl, Operation, OptionsHandle, Progress, Region,
    RequestHandle, Status,
};

/// The functions of the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    CreateAgent,
    DestroyAgent,
    CreateBackend,
    DestroyBackend,
    CreateOptions,
    DestroyOptions,
    RegisterHost,
    RegisterObject,
    Deregister,
    CreateRequest,
    Post,
    Status,
    Release,
}

impl Call {
    pub(super) const ALL: [Self; 13] = [
        Self::CreateAgent,
        Self::DestroyAgent,
        Self::CreateBackend,
        Self::DestroyBackend,
        Self::CreateOptions,
        Self::DestroyOptions,
        Self::RegisterHost,
        Self::RegisterObject,
        Self::Deregister,
        Self::CreateRequest,
        Self::Post,
        Self::Status,
        Self::Release,
    ];

    /// Whether a failure leaves a handle behind on purpose.
    pub(super) fn leaks(self) -> bool {
        matches!(
            self,
            Self::DestroyAgent
                | Self::DestroyBackend
                | Self::DestroyOptions
                | Self::Deregister
                | Self::Release
        )
    }
}

pub(super) struct Request {
    agent: usize,
    block: Block,
    is_running: bool,
}

/// A registered descriptor.
pub(super) struct Known {
    agent: usize,
    memory: Memory,
    region: Region,
}

/// What the library knows.
#[derive(Default)]
pub(super) struct World {
    pub(super) next: usize,
    /// Calls so far, in order.
    pub(super) log: Vec<Call>,
    /// Fails the call of this kind that comes after so many others.
    pub(super) fail: Option<(Call, usize)>,
    /// Decides, for each call, whether it fails; for random runs.
    pub(super) failures: Option<Box<dyn FnMut(Call) -> bool + Send>>,
    /// Objects by key.
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    /// Keys whose requests do not end before their agent does.
    pub(super) stuck: BTreeSet<String>,
    /// Keys whose requests fail, and the body that a read leaves.
    pub(super) refused: BTreeMap<String, String>,
    /// How often `status` says "running" first.
    pub(super) polls: usize,
    pub(super) polled: BTreeMap<usize, usize>,
    pub(super) device_max: BTreeMap<usize, u64>,
    // What is alive; only the world itself changes it.
    pub(super) agents: BTreeSet<usize>,
    pub(super) backends: BTreeSet<usize>,
    pub(super) options: BTreeSet<usize>,
    pub(super) requests: BTreeMap<usize, Request>,
    /// Running requests that were released.
    pub(super) released: Vec<Request>,
    pub(super) registered: Vec<Known>,
    /// Ended in vain, because their end was made to fail.
    pub(super) leaked: usize,
    /// Everything that was done wrong.
    pub(super) misuse: Vec<String>,
    /// Most requests that ran at once.
    pub(super) running_max: usize,
}

impl World {
    /// Handles that nobody ended.
    pub(super) fn left_over(&self) -> usize {
        self.agents.len()
            + self.backends.len()
            + self.options.len()
            + self.requests.len()
            + self.registered.len()
            + self.leaked
    }

    fn call(&mut self, call: Call) -> Result<usize, Status> {
        let before = self.log.iter().filter(|other| **other == call).count();
        self.log.push(call);
        let is_random = self.failures.as_mut().is_some_and(|fails| fails(call));
        if is_random || self.fail == Some((call, before)) {
            self.leaked += usize::from(call.leaks());
            return Err(Status(-4));
        }
        self.next += 1;
        Ok(self.next)
    }

    fn end(&mut self, what: &str, was_there: bool) {
        if !was_there {
            self.misuse.push(format!("{what} was ended twice or never made"));
        }
    }

    fn destroy_agent(&mut self, agent: usize) -> Result<(), Status> {
        if !self.backends.is_empty() && self.agents.len() == 1 {
            self.misuse.push("the agent ended before its backend".to_owned());
        }
        if self.requests.values().any(|request| request.agent == agent) {
            self.misuse.push("the agent ended before its requests".to_owned());
        }
        let was_there = self.agents.remove(&agent);
        self.end("an agent", was_there);
        self.call(Call::DestroyAgent)?;
        // The real one waits for what runs: it ends now, with its access to memory.
        let (ending, others) =
            std::mem::take(&mut self.released).into_iter().partition(|request| request.agent == agent);
        self.released = others;
        for request in ending {
            self.access(agent, &request.block);
        }
        Ok(())
    }

    fn register(&mut self, agent: usize, memory: Memory, regions: &[Region]) -> Result<(), Status> {
        self.call(if memory == Memory::Host { Call::RegisterHost } else { Call::RegisterObject })?;
        for region in regions {
            if memory == Memory::Object && region.device <= self.device_max.get(&agent).copied().unwrap_or(0)
            {
                self.misuse.push(format!("the name {} is not new", region.device));
            }
            self.device_max
                .entry(agent)
                .and_modify(|max| *max = region.device.max(*max))
                .or_insert(region.device);
            self.registered.push(Known { agent, memory, region: region.clone() });
        }
        Ok(())
    }

    fn deregister(&mut self, agent: usize, memory: Memory, regions: &[Region]) -> Result<(), Status> {
        for region in regions {
            let at = self.registered.iter().position(|known| {
                (known.agent, known.memory) == (agent, memory)
                    && (known.region.address, known.region.device) == (region.address, region.device)
            });
            match at {
                Some(at) => drop(self.registered.remove(at)),
                None => self.end("a registration", false),
            }
        }
        self.call(Call::Deregister).map(drop)
    }

    fn create_request(&mut self, agent: usize, block: Block) -> Result<RequestHandle, Status> {
        let covers = |known: &Known| {
            (known.agent, known.memory) == (agent, Memory::Host)
                && known.region.address <= block.address
                && block.address + block.bytes <= known.region.address + known.region.bytes
        };
        if !self.registered.iter().any(covers) || self.key(agent, &block).is_none() {
            self.misuse.push("a request for memory or an object that is not registered".to_owned());
        }
        let number = self.call(Call::CreateRequest)?;
        self.requests.insert(number, Request { agent, block, is_running: false });
        Ok(RequestHandle::fake(number))
    }

    fn post(&mut self, number: usize) -> Result<Progress, Status> {
        self.call(Call::Post)?;
        if let Some(request) = self.requests.get_mut(&number) {
            request.is_running = true;
        }
        let running = self.requests.values().filter(|request| request.is_running).count();
        self.running_max = self.running_max.max(running);
        Ok(Progress::Running)
    }

    fn status(&mut self, number: usize) -> Result<Progress, Status> {
        let Some(request) = self.requests.get(&number) else {
            self.end("a request", false);
            return Err(Status(-1));
        };
        let (agent, block) = (request.agent, request.block);
        let polled = self.polled.entry(number).or_default();
        *polled += 1;
        if *polled <= self.polls || self.key(agent, &block).is_some_and(|key| self.stuck.contains(&key)) {
            return Ok(Progress::Running);
        }
        if let Some(request) = self.requests.get_mut(&number) {
            request.is_running = false;
        }
        self.call(Call::Status)?;
        if self.access(agent, &block) { Ok(Progress::Done) } else { Err(Status::BACKEND) }
    }

    fn release(&mut self, number: usize) -> Result<(), Status> {
        let request = self.requests.remove(&number);
        self.end("a request", request.is_some());
        self.released.extend(request.filter(|request| request.is_running));
        self.call(Call::Release).map(drop)
    }

    /// The key under which an object is registered.
    fn key(&self, agent: usize, block: &Block) -> Option<String> {
        let object = |known: &&Known| {
            (known.agent, known.memory, known.region.device) == (agent, Memory::Object, block.device)
        };
        let known = self.registered.iter().find(object)?;
        known.region.key.as_ref().map(ToString::to_string)
    }

    /// Does what the plugin does with the memory, and says whether it calls that a success.
    fn access(&mut self, agent: usize, block: &Block) -> bool {
        let memory = ptr::with_exposed_provenance_mut::<u8>(block.address);
        let write = |bytes: &[u8]| {
            let moved = bytes.len().min(block.bytes);
            // SAFETY: the engine promised that the memory stays until now.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), memory, moved) }
        };
        let Some(key) = self.key(agent, block) else {
            // Deregistered while it ran: the real one goes on, too.
            if block.operation == Operation::Read {
                write(&vec![0xEE; block.bytes]);
            }
            return true;
        };
        if let Some(body) = self.refused.get(&key) {
            if block.operation == Operation::Read {
                write(body.as_bytes());
            }
            return false;
        }
        match block.operation {
            Operation::Write => {
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(memory, block.bytes) }.to_vec();
                self.objects.insert(key, bytes);
                true
            }
            Operation::Read => {
                if let Some(object) = self.objects.get(&key) {
                    write(object);
                    true
                } else {
                    write(b"<Error><Code>NoSuchKey</Code></Error>");
                    false
                }
            }
        }
    }
}

/// The seam, with the world behind it.
pub(super) fn library(world: &Arc<Mutex<World>>) -> Arc<dyn Nixl> {
    let mut mock = MockNixl::new();
    let on = || Arc::clone(world);
    let w = on();
    mock.expect_create_agent().returning(move |_| {
        let mut world = w.lock();
        let number = world.call(Call::CreateAgent)?;
        world.agents.insert(number);
        Ok(AgentHandle::fake(number))
    });
    let w = on();
    mock.expect_destroy_agent().returning(move |agent| w.lock().destroy_agent(agent.number()));
    let w = on();
    mock.expect_create_backend().returning(move |_, _| {
        let mut world = w.lock();
        let number = world.call(Call::CreateBackend)?;
        world.backends.insert(number);
        Ok(BackendHandle::fake(number))
    });
    let w = on();
    mock.expect_destroy_backend().returning(move |backend| {
        let mut world = w.lock();
        let was_there = world.backends.remove(&backend.number());
        world.end("a backend", was_there);
        world.call(Call::DestroyBackend).map(drop)
    });
    let w = on();
    mock.expect_create_options().returning(move |_| {
        let mut world = w.lock();
        let number = world.call(Call::CreateOptions)?;
        world.options.insert(number);
        Ok(OptionsHandle::fake(number))
    });
    let w = on();
    mock.expect_destroy_options().returning(move |options| {
        let mut world = w.lock();
        let was_there = world.options.remove(&options.number());
        world.end("call options", was_there);
        world.call(Call::DestroyOptions).map(drop)
    });
    let w = on();
    mock.expect_register()
        .returning(move |agent, _, memory, regions| w.lock().register(agent.number(), memory, regions));
    let w = on();
    mock.expect_deregister()
        .returning(move |agent, _, memory, regions| w.lock().deregister(agent.number(), memory, regions));
    let w = on();
    mock.expect_create_request()
        .returning(move |agent, _, _, block| w.lock().create_request(agent.number(), block));
    let w = on();
    mock.expect_post().returning(move |_, request| w.lock().post(request.number()));
    let w = on();
    mock.expect_status().returning(move |_, request| w.lock().status(request.number()));
    let w = on();
    mock.expect_release().returning(move |_, request| w.lock().release(request.number()));
    Arc::new(mock)
}

/// The checks above are alive: a handle that is ended twice, an agent that ends too early, a name that is used again.
#[test]
fn misuse_is_noticed() {
    let world = Arc::new(Mutex::new(World::default()));
    let api = library(&world);
    let agent = api.create_agent(c"a").unwrap();
    let backend = api.create_backend(&agent, &[]).unwrap();
    let options = api.create_options(&backend).unwrap();
    let region = Region { address: 0, bytes: 1, device: 1, key: None };
    for _ in 0..2 {
        api.register(&agent, &options, Memory::Object, std::slice::from_ref(&region)).unwrap();
    }
    let block = Block { operation: Operation::Read, address: 0, bytes: 1, device: 9 };
    let request = api.create_request(&agent, &options, c"a", block).unwrap();
    let again = RequestHandle::fake(request.number());
    api.destroy_agent(agent).unwrap();
    api.release(&AgentHandle::fake(1), request).unwrap();
    api.release(&AgentHandle::fake(1), again).unwrap();
    let noticed = world.lock().misuse.join("; ");
    for misuse in ["is not new", "not registered", "before its backend", "before its requests", "ended twice"]
    {
        assert!(noticed.contains(misuse), "{misuse}: {noticed}");
    }
}
