// SPDX-License-Identifier: GPL-2.0

//! The opcodes and the properties of a packet that each implies (IBTA 9.2, Table 38; CNP:
//! IBTA annex A17.9.3; FLUSH and ATOMIC WRITE: IBTA annex A19.4).
//!
//! One opcode stands for four properties: the transport service, the kind of operation, the
//! packet's position in its message, and the data that the last packet carries for the completion.
//! [`Opcode::info`] returns them, [`Opcode::compose`] makes an opcode of them.

/// The transport service of a packet; it must be that of the QP it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// None: congestion notification, which oxe recognises in order to drop it.
    Cnp,
}

/// The kind of operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Part of a SEND.
    Send,
    /// Part of an RDMA WRITE.
    Write,
    /// A request for an RDMA READ.
    ReadRequest,
    /// Part of the response to an RDMA READ, or the response to a FLUSH or an ATOMIC WRITE.
    ReadResponse,
    /// An acknowledgement, positive or negative.
    Ack,
    /// The answer to an atomic operation.
    AtomicAck,
    /// A request to compare and swap.
    CompareSwap,
    /// A request to fetch and add.
    FetchAdd,
    /// A request to make earlier accesses visible, or persistent.
    Flush,
    /// A request to store 8 bytes at once.
    AtomicWrite,
    /// A congestion notification.
    Cnp,
}

impl Kind {
    /// Whether it goes from requester to responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Kind::Send
                | Kind::Write
                | Kind::ReadRequest
                | Kind::CompareSwap
                | Kind::FetchAdd
                | Kind::Flush
                | Kind::AtomicWrite
        )
    }

    /// Whether it goes from responder to requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(self, Kind::ReadResponse | Kind::Ack | Kind::AtomicAck)
    }

    /// Whether it asks for an atomic operation, which returns the original value.
    #[inline]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Kind::CompareSwap | Kind::FetchAdd)
    }
}

/// The position of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The first and last.
    Only,
}

impl Position {
    /// Whether a message begins here.
    #[inline]
    pub const fn is_start(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// Whether a message ends here.
    #[inline]
    pub const fn is_end(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }

    /// The position of a packet, given whether a message begins and whether it ends with it.
    #[inline]
    pub const fn of(start: bool, end: bool) -> Self {
        match (start, end) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        }
    }
}

/// The data that the end of a message carries for the receiver's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Plain,
    /// Immediate data.
    Imm,
    /// A key to invalidate.
    Inv,
}

/// Which headers follow the base transport header, in the order in which they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtKind {
    /// None.
    None,
    /// ImmDt.
    Imm,
    /// IETH.
    Inv,
    /// RETH.
    Reth,
    /// RETH, ImmDt.
    RethImm,
    /// FETH, RETH.
    Flush,
    /// AETH.
    Aeth,
    /// AETH, AtomicAckETH.
    AtomicAck,
    /// AtomicETH.
    Atomic,
    /// DETH.
    Deth,
    /// DETH, ImmDt.
    DethImm,
    /// The 16 reserved bytes of a congestion notification.
    Cnp,
}

impl ExtKind {
    /// Length of these headers in bytes.
    #[inline]
    pub const fn len(self) -> usize {
        match self {
            ExtKind::None => 0,
            ExtKind::Imm | ExtKind::Inv | ExtKind::Aeth => 4,
            ExtKind::Deth => 8,
            ExtKind::AtomicAck | ExtKind::DethImm => 12,
            ExtKind::Reth | ExtKind::Cnp => 16,
            ExtKind::RethImm | ExtKind::Flush => 20,
            ExtKind::Atomic => 28,
        }
    }

    /// Whether no header follows.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// How long the payload of a packet may be (IBTA 9.7.4.1.6 and 9.8.2.2.2, IBTA annex A19.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadRule {
    /// No payload.
    Empty,
    /// Exactly the path MTU: first and middle packets.
    Full,
    /// One byte up to the path MTU: last packets.
    Tail,
    /// Nothing up to the path MTU: only packets.
    Any,
    /// Exactly 8 bytes: ATOMIC WRITE.
    Word,
}

impl PayloadRule {
    /// Whether a payload of `len` bytes is right under a path MTU of `pmtu` bytes.
    #[inline]
    pub const fn allows(self, len: usize, pmtu: usize) -> bool {
        match self {
            PayloadRule::Empty => len == 0,
            PayloadRule::Full => len == pmtu,
            PayloadRule::Tail => 0 < len && len <= pmtu,
            PayloadRule::Any => len <= pmtu,
            PayloadRule::Word => len == 8,
        }
    }
}

/// The properties of a packet that its opcode implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The service.
    pub service: Service,
    /// The kind of operation.
    pub kind: Kind,
    /// The position in the message.
    pub position: Position,
    /// The data that the end of the message carries.
    pub tail: Tail,
    /// Which headers follow the BTH.
    pub ext: ExtKind,
    /// How long the payload may be.
    pub payload: PayloadRule,
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal:
       $service:ident $kind:ident $position:ident $tail:ident $ext:ident $payload:ident;)*) => {
        /// Every opcode that oxe understands, with its value on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* $name = $value,)*
        }

        /// Every opcode, in ascending order.
        pub const ALL: &[Opcode] = &[$(Opcode::$name,)*];

        const BY_VALUE: [Option<Opcode>; 256] = {
            let mut table = [None; 256];
            $(table[$value] = Some(Opcode::$name);)*
            table
        };

        static INFO: [Info; 256] = {
            let mut table = [NO_INFO; 256];
            $(table[$value] = Info {
                service: Service::$service,
                kind: Kind::$kind,
                position: Position::$position,
                tail: Tail::$tail,
                ext: ExtKind::$ext,
                payload: PayloadRule::$payload,
            };)*
            table
        };
    };
}

/// Fills the rows of values that are no opcode. No `Opcode` has these values.
const NO_INFO: Info = Info {
    service: Service::Cnp,
    kind: Kind::Cnp,
    position: Position::Only,
    tail: Tail::Plain,
    ext: ExtKind::Cnp,
    payload: PayloadRule::Empty,
};

opcodes! {
    /// RC SEND, first packet.
    RcSendFirst = 0x00: Rc Send First Plain None Full;
    /// RC SEND, middle packet.
    RcSendMiddle = 0x01: Rc Send Middle Plain None Full;
    /// RC SEND, last packet.
    RcSendLast = 0x02: Rc Send Last Plain None Tail;
    /// RC SEND with immediate, last packet.
    RcSendLastImm = 0x03: Rc Send Last Imm Imm Tail;
    /// RC SEND of one packet.
    RcSendOnly = 0x04: Rc Send Only Plain None Any;
    /// RC SEND with immediate of one packet.
    RcSendOnlyImm = 0x05: Rc Send Only Imm Imm Any;
    /// RC RDMA WRITE, first packet.
    RcWriteFirst = 0x06: Rc Write First Plain Reth Full;
    /// RC RDMA WRITE, middle packet.
    RcWriteMiddle = 0x07: Rc Write Middle Plain None Full;
    /// RC RDMA WRITE, last packet.
    RcWriteLast = 0x08: Rc Write Last Plain None Tail;
    /// RC RDMA WRITE with immediate, last packet.
    RcWriteLastImm = 0x09: Rc Write Last Imm Imm Tail;
    /// RC RDMA WRITE of one packet.
    RcWriteOnly = 0x0a: Rc Write Only Plain Reth Any;
    /// RC RDMA WRITE with immediate of one packet.
    RcWriteOnlyImm = 0x0b: Rc Write Only Imm RethImm Any;
    /// RC RDMA READ request.
    RcReadRequest = 0x0c: Rc ReadRequest Only Plain Reth Empty;
    /// RC RDMA READ response, first packet.
    RcReadResponseFirst = 0x0d: Rc ReadResponse First Plain Aeth Full;
    /// RC RDMA READ response, middle packet.
    RcReadResponseMiddle = 0x0e: Rc ReadResponse Middle Plain None Full;
    /// RC RDMA READ response, last packet.
    RcReadResponseLast = 0x0f: Rc ReadResponse Last Plain Aeth Tail;
    /// RC RDMA READ response of one packet.
    RcReadResponseOnly = 0x10: Rc ReadResponse Only Plain Aeth Any;
    /// RC acknowledgement.
    RcAck = 0x11: Rc Ack Only Plain Aeth Empty;
    /// RC response to an atomic operation.
    RcAtomicAck = 0x12: Rc AtomicAck Only Plain AtomicAck Empty;
    /// RC compare and swap.
    RcCompareSwap = 0x13: Rc CompareSwap Only Plain Atomic Empty;
    /// RC fetch and add.
    RcFetchAdd = 0x14: Rc FetchAdd Only Plain Atomic Empty;
    /// RC SEND with invalidate, last packet.
    RcSendLastInv = 0x16: Rc Send Last Inv Inv Tail;
    /// RC SEND with invalidate of one packet.
    RcSendOnlyInv = 0x17: Rc Send Only Inv Inv Any;
    /// RC FLUSH.
    RcFlush = 0x1c: Rc Flush Only Plain Flush Empty;
    /// RC ATOMIC WRITE.
    RcAtomicWrite = 0x1d: Rc AtomicWrite Only Plain Reth Word;
    /// UC SEND, first packet.
    UcSendFirst = 0x20: Uc Send First Plain None Full;
    /// UC SEND, middle packet.
    UcSendMiddle = 0x21: Uc Send Middle Plain None Full;
    /// UC SEND, last packet.
    UcSendLast = 0x22: Uc Send Last Plain None Tail;
    /// UC SEND with immediate, last packet.
    UcSendLastImm = 0x23: Uc Send Last Imm Imm Tail;
    /// UC SEND of one packet.
    UcSendOnly = 0x24: Uc Send Only Plain None Any;
    /// UC SEND with immediate of one packet.
    UcSendOnlyImm = 0x25: Uc Send Only Imm Imm Any;
    /// UC RDMA WRITE, first packet.
    UcWriteFirst = 0x26: Uc Write First Plain Reth Full;
    /// UC RDMA WRITE, middle packet.
    UcWriteMiddle = 0x27: Uc Write Middle Plain None Full;
    /// UC RDMA WRITE, last packet.
    UcWriteLast = 0x28: Uc Write Last Plain None Tail;
    /// UC RDMA WRITE with immediate, last packet.
    UcWriteLastImm = 0x29: Uc Write Last Imm Imm Tail;
    /// UC RDMA WRITE of one packet.
    UcWriteOnly = 0x2a: Uc Write Only Plain Reth Any;
    /// UC RDMA WRITE with immediate of one packet.
    UcWriteOnlyImm = 0x2b: Uc Write Only Imm RethImm Any;
    /// UD SEND.
    UdSendOnly = 0x64: Ud Send Only Plain Deth Any;
    /// UD SEND with immediate.
    UdSendOnlyImm = 0x65: Ud Send Only Imm DethImm Any;
    /// Congestion notification.
    Cnp = 0x81: Cnp Cnp Only Plain Cnp Empty;
}

impl Opcode {
    /// The opcode of a byte from the wire, or `None` when there is no such opcode.
    #[inline]
    pub const fn from_u8(value: u8) -> Option<Self> {
        BY_VALUE[value as usize]
    }

    /// The properties that the opcode implies.
    #[inline]
    pub fn info(self) -> &'static Info {
        &INFO[self as u8 as usize]
    }

    /// The transport service.
    #[inline]
    pub fn service(self) -> Service {
        self.info().service
    }

    /// The kind of operation.
    #[inline]
    pub fn kind(self) -> Kind {
        self.info().kind
    }

    /// The position of the packet in its message.
    #[inline]
    pub fn position(self) -> Position {
        self.info().position
    }

    /// Whether immediate data is among the headers.
    #[inline]
    pub fn has_imm(self) -> bool {
        matches!(self.info().tail, Tail::Imm)
    }

    /// Whether an IETH is among the headers.
    #[inline]
    pub fn has_ieth(self) -> bool {
        matches!(self.info().tail, Tail::Inv)
    }

    /// Whether a RETH is among the headers.
    #[inline]
    pub fn has_reth(self) -> bool {
        matches!(
            self.info().ext,
            ExtKind::Reth | ExtKind::RethImm | ExtKind::Flush
        )
    }

    /// Whether an AETH is among the headers.
    #[inline]
    pub fn has_aeth(self) -> bool {
        matches!(self.info().ext, ExtKind::Aeth | ExtKind::AtomicAck)
    }

    /// Whether a DETH is among the headers.
    #[inline]
    pub fn has_deth(self) -> bool {
        matches!(self.info().ext, ExtKind::Deth | ExtKind::DethImm)
    }

    /// The opcode of a packet of `kind` at `position`. `tail` is ignored unless the message ends
    /// with this packet: a message that ends with immediate data begins as any other.
    ///
    /// `None` when there is none, as for a READ over UC or a WRITE with invalidate.
    pub const fn compose(
        service: Service,
        kind: Kind,
        position: Position,
        tail: Tail,
    ) -> Option<Self> {
        match service {
            Service::Rc => Self::compose_rc(kind, position, tail),
            Service::Uc => match (kind, tail) {
                (Kind::Send, Tail::Plain | Tail::Imm) | (Kind::Write, _) => {
                    match Self::compose_rc(kind, position, tail) {
                        Some(rc) => Self::from_u8(rc as u8 | 0x20),
                        None => None,
                    }
                }
                _ => None,
            },
            Service::Ud => match (kind, position, tail) {
                (Kind::Send, Position::Only, Tail::Plain) => Some(Opcode::UdSendOnly),
                (Kind::Send, Position::Only, Tail::Imm) => Some(Opcode::UdSendOnlyImm),
                _ => None,
            },
            Service::Cnp => match kind {
                Kind::Cnp => Some(Opcode::Cnp),
                _ => None,
            },
        }
    }

    const fn compose_rc(kind: Kind, position: Position, tail: Tail) -> Option<Self> {
        Some(match (kind, position, tail) {
            (Kind::Send, Position::First, _) => Opcode::RcSendFirst,
            (Kind::Send, Position::Middle, _) => Opcode::RcSendMiddle,
            (Kind::Send, Position::Last, Tail::Plain) => Opcode::RcSendLast,
            (Kind::Send, Position::Last, Tail::Imm) => Opcode::RcSendLastImm,
            (Kind::Send, Position::Last, Tail::Inv) => Opcode::RcSendLastInv,
            (Kind::Send, Position::Only, Tail::Plain) => Opcode::RcSendOnly,
            (Kind::Send, Position::Only, Tail::Imm) => Opcode::RcSendOnlyImm,
            (Kind::Send, Position::Only, Tail::Inv) => Opcode::RcSendOnlyInv,
            (Kind::Write, _, Tail::Inv) => return None,
            (Kind::Write, Position::First, _) => Opcode::RcWriteFirst,
            (Kind::Write, Position::Middle, _) => Opcode::RcWriteMiddle,
            (Kind::Write, Position::Last, Tail::Plain) => Opcode::RcWriteLast,
            (Kind::Write, Position::Last, Tail::Imm) => Opcode::RcWriteLastImm,
            (Kind::Write, Position::Only, Tail::Plain) => Opcode::RcWriteOnly,
            (Kind::Write, Position::Only, Tail::Imm) => Opcode::RcWriteOnlyImm,
            (_, _, Tail::Imm | Tail::Inv) => return None,
            (Kind::ReadResponse, Position::First, _) => Opcode::RcReadResponseFirst,
            (Kind::ReadResponse, Position::Middle, _) => Opcode::RcReadResponseMiddle,
            (Kind::ReadResponse, Position::Last, _) => Opcode::RcReadResponseLast,
            (Kind::ReadResponse, Position::Only, _) => Opcode::RcReadResponseOnly,
            (Kind::ReadRequest, Position::Only, _) => Opcode::RcReadRequest,
            (Kind::Ack, Position::Only, _) => Opcode::RcAck,
            (Kind::AtomicAck, Position::Only, _) => Opcode::RcAtomicAck,
            (Kind::CompareSwap, Position::Only, _) => Opcode::RcCompareSwap,
            (Kind::FetchAdd, Position::Only, _) => Opcode::RcFetchAdd,
            (Kind::Flush, Position::Only, _) => Opcode::RcFlush,
            (Kind::AtomicWrite, Position::Only, _) => Opcode::RcAtomicWrite,
            _ => return None,
        })
    }
}

#[cfg(test)]
#[path = "opcode_tests.rs"]
mod tests;
