//! Makes a workload from a seed.

use std::{cmp::Reverse, collections::BinaryHeap};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::{
    BLOCK_TOKENS, Request,
    quantiles::{Quantiles, below},
};

/// The longest prompt that is made, in tokens. A conversation that has grown to it ends.
pub const MAX_INPUT_TOKENS: u64 = 126_000;

// The figures below are the rounded quantiles of the one-hour conversation trace of Mooncake (FAST'25 release).

/// Time between two requests, in ms: an exponential distribution with a mean of 294 ms.
const ARRIVAL_GAP_MS: Quantiles = Quantiles(&[
    (0, 0),
    (100, 30),
    (250, 82),
    (500, 196),
    (750, 393),
    (900, 652),
    (950, 848),
    (990, 1_304),
    (999, 1_956),
    (1_000, 2_889),
]);
/// Tokens of the first message of a conversation, without the system prompt.
const FIRST_MESSAGE_TOKENS: Quantiles = Quantiles(&[
    (0, 11),
    (50, 17),
    (100, 25),
    (150, 63),
    (200, 212),
    (250, 456),
    (300, 876),
    (400, 3_030),
    (500, 4_380),
    (600, 6_540),
    (700, 9_900),
    (800, 15_000),
    (900, 24_700),
    (950, 37_700),
    (970, 50_900),
    (980, 66_300),
    (990, 89_000),
    (995, 111_000),
    (1_000, 125_000),
]);
/// Tokens of every later message.
const NEXT_MESSAGE_TOKENS: Quantiles = Quantiles(&[
    (0, 1),
    (100, 9),
    (200, 13),
    (300, 22),
    (400, 45),
    (500, 126),
    (600, 314),
    (700, 591),
    (750, 1_040),
    (800, 2_440),
    (850, 3_850),
    (900, 5_340),
    (950, 8_440),
    (990, 20_000),
    (1_000, 50_000),
]);
/// Tokens of an answer.
const ANSWER_TOKENS: Quantiles = Quantiles(&[
    (0, 1),
    (20, 3),
    (50, 10),
    (100, 24),
    (150, 46),
    (200, 100),
    (250, 156),
    (300, 213),
    (400, 291),
    (500, 350),
    (600, 399),
    (750, 472),
    (850, 543),
    (900, 597),
    (950, 698),
    (990, 1_120),
    (1_000, 2_000),
]);
/// Time from one message of a conversation to the next, in ms.
const TURN_GAP_MS: Quantiles = Quantiles(&[
    (0, 1_000),
    (10, 15_000),
    (50, 36_000),
    (100, 48_000),
    (250, 75_000),
    (400, 111_000),
    (500, 147_000),
    (600, 195_000),
    (700, 270_000),
    (800, 381_000),
    (900, 552_000),
    (950, 720_000),
    (990, 1_800_000),
    (1_000, 3_200_000),
]);
/// The chance, in thousandths, that a conversation goes on after its first, second, ... message; the last holds for
/// all that follow.
const GOES_ON: [u64; 4] = [345, 440, 520, 590];
/// How many of 1,000 later turns go back to an earlier place of the conversation and go on from there: an edited
/// message, or an answer asked for again.
const GOES_BACK: u64 = 150;
/// System prompts: how many of 1,000 conversations use each, and its tokens. All start with the same
/// [`BLOCK_TOKENS`] tokens. The real trace has only the first one; the longer ones stand for agents and tools.
const SYSTEM_PROMPTS: [(u64, u64); 4] = [(940, 880), (30, 1_400), (20, 2_600), (10, 5_000)];

/// What a [`Generator`] makes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GeneratorOptions {
    /// The same seed gives the same requests, on every platform.
    pub seed: u64,
    /// How many requests; about 3.4 of them come per second.
    pub requests: u64,
}

impl Default for GeneratorOptions {
    /// About one hour of requests.
    fn default() -> Self {
        Self { seed: 1, requests: 12_000 }
    }
}

/// An iterator over the requests of a made-up chat service: conversations of one or more turns that start with a
/// shared system prompt, each turn repeating the conversation so far and adding to it. Lengths, pauses and the share
/// of repeated blocks are near those of Mooncake's one-hour conversation trace.
///
/// Requests come at a steady rate; each is the next turn of a conversation whose user is ready, or else the first of
/// a new one. Block ids count up from 0 in the order in which they first appear. Memory grows with the conversations
/// that are still open, not with the requests made.
#[derive(Debug)]
pub struct Generator {
    rng: ChaCha8Rng,
    left: u64,
    clock_ms: u64,
    next_id: u64,
    next_conversation: u64,
    system_prompts: [Vec<u64>; SYSTEM_PROMPTS.len()],
    waiting: BinaryHeap<Reverse<Conversation>>,
}

/// A conversation between two turns. The order of the fields sorts the heap: who is ready first, then who began first.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Conversation {
    ready_ms: u64,
    number: u64,
    turns: usize,
    system_prompt: usize,
    /// Tokens of everything said so far, the last answer included.
    tokens: u64,
    /// The full blocks of the last prompt. What follows them gets new ids: a part-filled block has other content, and
    /// so another id, once it is filled.
    blocks: Vec<u64>,
}

impl Generator {
    /// A generator at its first request.
    pub fn new(options: GeneratorOptions) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(options.seed),
            left: options.requests,
            clock_ms: 0,
            next_id: 0,
            next_conversation: 0,
            system_prompts: Default::default(),
            waiting: BinaryHeap::new(),
        }
    }

    fn ready_conversation(&mut self) -> Option<Conversation> {
        let Reverse(first) = self.waiting.peek()?;
        if first.ready_ms > self.clock_ms {
            return None;
        }
        self.waiting.pop().map(|Reverse(conversation)| conversation)
    }

    fn new_conversation(&mut self) -> Conversation {
        let mut choice = below(&mut self.rng, 1_000);
        let mut system_prompt = 0;
        while choice >= SYSTEM_PROMPTS[system_prompt].0 {
            choice -= SYSTEM_PROMPTS[system_prompt].0;
            system_prompt += 1;
        }
        self.next_conversation += 1;
        Conversation {
            ready_ms: self.clock_ms,
            number: self.next_conversation,
            turns: 0,
            system_prompt,
            tokens: SYSTEM_PROMPTS[system_prompt].1,
            blocks: self.system_prompt_blocks(system_prompt),
        }
    }

    /// The full blocks of a system prompt; their ids are given out when it is first used.
    fn system_prompt_blocks(&mut self, prompt: usize) -> Vec<u64> {
        if self.system_prompts[prompt].is_empty() {
            let mut blocks = if self.next_id == 0 { Vec::new() } else { vec![0] };
            self.fill(&mut blocks, SYSTEM_PROMPTS[prompt].1 / BLOCK_TOKENS);
            self.system_prompts[prompt] = blocks;
        }
        self.system_prompts[prompt].clone()
    }

    /// Adds new blocks until there are `count`.
    fn fill(&mut self, blocks: &mut Vec<u64>, count: u64) {
        let first = self.next_id;
        self.next_id += count - blocks.len() as u64;
        blocks.extend(first..self.next_id);
    }

    /// Cuts a conversation back to a full block behind its system prompt, each as likely as the others.
    fn go_back(&mut self, conversation: &mut Conversation) {
        let system_tokens = SYSTEM_PROMPTS[conversation.system_prompt].1;
        let least = system_tokens / BLOCK_TOKENS;
        let kept = least + below(&mut self.rng, conversation.blocks.len() as u64 - least + 1);
        let cut = usize::try_from(kept).expect("no more than there are blocks");
        conversation.blocks.truncate(cut);
        conversation.tokens = system_tokens.max(kept * BLOCK_TOKENS);
    }

    /// Takes the next turn of `conversation`, and puts it back if its user has more to say.
    fn turn(&mut self, mut conversation: Conversation) -> Request {
        let message = if conversation.turns == 0 { FIRST_MESSAGE_TOKENS } else { NEXT_MESSAGE_TOKENS };
        if conversation.turns > 0 && below(&mut self.rng, 1_000) < GOES_BACK {
            self.go_back(&mut conversation);
        }
        let input_length = (conversation.tokens + message.draw(&mut self.rng)).min(MAX_INPUT_TOKENS);
        let mut hash_ids = std::mem::take(&mut conversation.blocks);
        self.fill(&mut hash_ids, input_length.div_ceil(BLOCK_TOKENS));
        let request = Request {
            timestamp_ms: self.clock_ms,
            input_length,
            output_length: ANSWER_TOKENS.draw(&mut self.rng),
            hash_ids,
        };

        let goes_on = GOES_ON[conversation.turns.min(GOES_ON.len() - 1)];
        conversation.turns += 1;
        conversation.tokens = input_length + request.output_length;
        conversation.ready_ms = self.clock_ms + TURN_GAP_MS.draw(&mut self.rng);
        if below(&mut self.rng, 1_000) < goes_on && conversation.tokens < MAX_INPUT_TOKENS {
            let part_filled = usize::from(!input_length.is_multiple_of(BLOCK_TOKENS));
            conversation.blocks = request.hash_ids[..request.hash_ids.len() - part_filled].to_vec();
            self.waiting.push(Reverse(conversation));
        }
        request
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let conversation = match self.ready_conversation() {
            Some(conversation) => conversation,
            None => self.new_conversation(),
        };
        let request = self.turn(conversation);
        self.clock_ms += ARRIVAL_GAP_MS.draw(&mut self.rng);
        Some(request)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::try_from(self.left).unwrap_or(usize::MAX), usize::try_from(self.left).ok())
    }
}

#[cfg(test)]
mod tests;
