// SPDX-License-Identifier: GPL-2.0

//! The messages of a UC QP, as the judges know them.

use crate::api::*;

const PSN_MASK: u32 = 0xff_ffff;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Send,
    Write,
    /// A local operation. Some give the memory that the peer writes to another key.
    Local {
        rekeys: bool,
    },
}

/// The reason that a request fails at its own side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It did not pass the device's checks.
    Posted,
    /// UC has no such operation (IBTA 9.2, Table 38).
    Unsupported(SendOp),
    /// It is longer than a message may be (IBTA 9.7.2).
    TooLong,
    /// The payload cannot be read from this byte on.
    Unreadable(usize),
    /// The local operation cannot be carried out.
    Unbindable,
}

impl Fault {
    /// The status with which the request completes (IBTA 11.6.2).
    pub fn status(self) -> Status {
        match self {
            Fault::Posted | Fault::Unreadable(_) => Status::LocProt,
            Fault::Unsupported(_) => Status::LocQpOp,
            Fault::TooLong => Status::LocLen,
            Fault::Unbindable => Status::MwBind,
        }
    }
}

/// Something wrong with the packets of a message, as a peer may send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// This packet, which is not the last one, is shorter than the path MTU.
    Short(u32),
    /// The last packet is longer than the path MTU.
    Long,
    /// The last of several packets is empty.
    Empty,
    /// The RETH has this length.
    Length(u32),
}

/// A message or another request of a send queue.
#[derive(Clone, Debug)]
pub struct Message {
    pub verb: Verb,
    pub imm: Option<[u8; 4]>,
    /// Where the data is in the memory of the host, and what it is.
    pub at: usize,
    pub data: Vec<u8>,
    /// The remote memory of a WRITE, and where that is if the peer may write to it.
    pub va: u64,
    pub rkey: u32,
    pub place: Option<usize>,
    pub signaled: bool,
    pub solicited: bool,
    pub fault: Option<Fault>,
    pub flaw: Option<Flaw>,
    /// The first PSN, how many packets there are, and how many of them are sent.
    pub first: u32,
    pub span: u32,
    pub sent: u32,
    /// It is sent to its end, lost for want of a route, or carried out.
    pub finished: bool,
    /// Its payload was copied.
    pub copied: bool,
    /// It has failed, and waits for its completion.
    pub failed: bool,
    pub done: Option<Status>,
    /// How often it arrived whole.
    pub arrived: u32,
}

impl Message {
    /// A request of `verb` with nothing else.
    pub fn new(verb: Verb, pmtu: u32, at: usize, data: Vec<u8>) -> Message {
        Message {
            verb,
            imm: None,
            at,
            va: 0,
            rkey: 0,
            place: None,
            signaled: false,
            solicited: false,
            fault: None,
            flaw: None,
            first: 0,
            // IBTA 9.7.2: a packet for each path MTU, and one for a message without data.
            span: (data.len() as u32).div_ceil(pmtu).max(1),
            data,
            sent: 0,
            finished: false,
            copied: false,
            failed: false,
            done: None,
            arrived: 0,
        }
    }

    /// Bytes of data.
    pub fn len(&self) -> u32 {
        self.data.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub fn is_local(&self) -> bool {
        matches!(self.verb, Verb::Local { .. })
    }

    /// Whether it fails before a packet is sent.
    pub fn fails_at_once(&self) -> bool {
        let fault = self.fault.filter(|_| !self.is_local());
        fault.is_some_and(|fault| !matches!(fault, Fault::Unreadable(_)))
    }

    /// The request as it is posted.
    pub fn request(&self) -> Request {
        let flags = Flags {
            signaled: self.signaled,
            solicited: self.solicited,
            fence: false,
        };
        let op = match (self.verb, self.imm, self.fault) {
            (_, _, Some(Fault::Posted)) => return Request::with_local_error(Status::LocProt),
            (_, _, Some(Fault::Unsupported(op))) => op,
            (Verb::Send, None, _) => SendOp::Send,
            (Verb::Send, Some(imm), _) => SendOp::SendImm(imm),
            (Verb::Write, None, _) => SendOp::Write,
            (Verb::Write, Some(imm), _) => SendOp::WriteImm(imm),
            (Verb::Local { .. }, ..) => SendOp::Local,
        };
        let len = match self.fault {
            Some(Fault::TooLong) => (1 << 31) + 1,
            _ => self.len(),
        };
        Request::new(op, len, self.va, self.rkey, flags)
    }

    /// Whether a packet with this PSN was sent for it: which one.
    pub fn packet(&self, psn: u32) -> Option<u32> {
        let k = psn.wrapping_sub(self.first) & 0xff_ffff;
        (k < self.sent).then_some(k)
    }

    /// Where the payload of packet `k` begins and ends.
    pub fn chunk(&self, k: u32, pmtu: u32) -> std::ops::Range<usize> {
        let from = (k as usize * pmtu as usize).min(self.data.len());
        from..(from + pmtu as usize).min(self.data.len())
    }

    /// Whether packet `k` has a wrong length for its position (IBTA 9.8.2.2).
    pub fn is_misshapen(&self, k: u32) -> bool {
        match self.flaw {
            Some(Flaw::Short(short)) => k == short,
            Some(Flaw::Long | Flaw::Empty) => self.ends_with(k),
            Some(Flaw::Length(_)) | None => false,
        }
    }

    /// The payload of packet `k` as it leaves.
    pub fn payload(&self, k: u32, pmtu: u32) -> Vec<u8> {
        let mut payload = self.data[self.chunk(k, pmtu)].to_vec();
        match self.flaw.filter(|_| self.is_misshapen(k)) {
            Some(Flaw::Short(_)) => payload.truncate(pmtu as usize - 4),
            Some(Flaw::Long) => payload.resize(pmtu as usize + 4, 0),
            Some(Flaw::Empty) => payload.clear(),
            Some(Flaw::Length(_)) | None => {}
        }
        payload
    }

    /// The length that the RETH of a WRITE has when it leaves.
    pub fn reth_len(&self) -> u32 {
        match self.flaw {
            Some(Flaw::Length(len)) => len,
            _ => self.len(),
        }
    }

    /// The last packet of the message.
    pub fn ends_with(&self, k: u32) -> bool {
        k + 1 == self.span
    }
}

/// The requests of a QP, and how far they are.
#[derive(Debug, Default)]
pub struct Flow {
    /// All messages ever posted.
    pub messages: Vec<Message>,
    /// The first message since the latest reset; the first that is not sent to its end; the first
    /// that is not complete.
    pub base: usize,
    pub current: usize,
    pub completed: usize,
    /// The PSN of the next packet.
    pub psn: u32,
}

impl Flow {
    /// Message `m` begins or goes on.
    fn begin(&mut self, m: usize) -> &mut Message {
        let message = &mut self.messages[m];
        if message.sent == 0 {
            message.first = self.psn;
        }
        message
    }

    /// The next packet of message `m` is sent.
    pub fn packet_sent(&mut self, m: usize) {
        let message = self.begin(m);
        message.sent += 1;
        message.finished |= message.sent == message.span;
        if message.finished {
            self.current = m + 1;
        }
        self.psn = (self.psn + 1) & PSN_MASK;
    }

    /// There is no route for message `m`: it ends here, and counts as sent.
    pub fn lose(&mut self, m: usize) {
        let message = self.begin(m);
        message.finished = true;
        self.psn = message.first.wrapping_add(message.span) & PSN_MASK;
        self.current = m + 1;
    }

    /// The payloads of all messages that are sent to their ends are copied.
    pub fn copy(&mut self) {
        let (current, completed) = (self.current, self.completed);
        for message in &mut self.messages[completed.min(current)..current] {
            message.copied |= message.finished;
        }
    }

    /// Request `m`, a local operation, is carried out, or fails: then it gives the status.
    pub fn carry_out(&mut self, m: usize) -> Result<(), Status> {
        let message = &mut self.messages[m];
        if message.fault.is_some() {
            message.failed = true;
            return Err(Status::MwBind);
        }
        (message.finished, message.copied) = (true, true);
        self.current = m + 1;
        Ok(())
    }

    /// Request `m`, the oldest without a completion, completes.
    pub fn complete(&mut self, m: usize, status: Status) {
        self.messages[m].done = Some(status);
        self.completed = m + 1;
        self.current = self.current.max(m + 1);
    }

    /// The QP is reset: posted requests are forgotten.
    pub fn reset(&mut self) {
        self.base = self.messages.len();
        (self.current, self.completed) = (self.base, self.base);
    }
}

/// The program's view of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reset, or not connected yet.
    Down,
    /// Ready to receive, not to send.
    Half,
    Up,
    /// In SQD: the send queue is not drained yet, or is drained.
    Draining,
    Drained,
    /// In SQE.
    Failed,
    /// In error.
    Dead,
}
