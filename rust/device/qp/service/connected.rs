// SPDX-License-Identifier: GPL-2.0

//! The connected services, RC and UC: joins the transport with the queues, memory and packets of a
//! connected QP.

use crate::device::counters::Count;
use crate::device::mem::error::MemError;
use crate::device::mem::grant::{Grant, MkeyCache};
use crate::device::mem::payload::{PayloadError, PayloadRef};
use crate::device::packet::gso::{Packets, Whole};
use crate::device::packet::kept::KeptPackets;
use crate::device::packet::loopback::{LoopbackOrigin, LoopbackPacket, LoopbackQueue};
use crate::device::packet::path::Path;
use crate::device::packet::rx_packet::RxPacket;
use crate::device::packet::tx_batch::{Batch, NoPacket, Unsent};
use crate::device::port::Port;
use crate::device::qp::context::QpContext;
use crate::device::qp::local_ops;
use crate::device::qp::progress::{Deferred, Dropped, Progress};
use crate::device::qp::recv_queue::RecvQueue;
use crate::device::qp::send_queue::SendQueue;
use crate::device::qp::service::attr::connected_change;
use crate::device::qp::service::env::Env;
use crate::device::qp::service::remote::lookup;
use crate::device::qp::service::resources::{ReadKeys, Resources};
use crate::device::qp::trace;
use crate::net::tx_limit::TxLimitHandler;
use crate::proto::transport::{
    ConnectedQp, Connection, DropReason, Instant, Modify, Payload, State, UcQp, Verdict,
    LOOPBACK_MTU,
};
use crate::proto::wire::PacketRepr;
use crate::rdma::access::Access;
use crate::rdma::details::Details;
use crate::rdma::qp::QpAttr;
use crate::rdma::strided::StridedDst;
use kernel::prelude::*;

/// The path of a connection, and the memory that its peer may access.
pub(crate) struct Link {
    pub(crate) path: Option<Path>,
    /// The connection takes the loopback if both ends are on this device. Set before there is a
    /// path: both ends must be of one mind, whatever is switched meanwhile.
    pub(crate) loopback: bool,
    /// Empty for UC, which has no READs.
    pub(crate) read_keys: ReadKeys,
    write_key: Option<Grant>,
    peer_cache: MkeyCache,
    /// Request packets that came behind a missing one.
    pub(super) kept: KeptPackets,
}

impl Link {
    /// Writes the details of the path from `port`.
    pub(super) fn details(&self, port: &Port, out: &mut Details) {
        let path = match &self.path {
            None => c"none",
            Some(path) if path.is_loopback() => c"loopback",
            Some(_) => c"wire",
        };
        out.text(c"path", path);
        let gso = self.path.as_ref().and_then(|path| path.uses_gso(port));
        if let Some(gso) = gso {
            out.text(c"gso", if gso { c"yes" } else { c"no" });
        }
    }

    /// Drops the references to memory regions, and the packets that are kept: a QP that does
    /// nothing any more must not hold them.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.write_key = None;
        self.peer_cache = None;
        for key in self.read_keys.iter_mut() {
            *key = None;
        }
    }
}

/// The state of a connected QP.
pub(crate) struct Connected<C> {
    pub(crate) conn: C,
    pub(crate) link: Link,
}

/// An RC QP.
pub(crate) type Rc = Connected<Connection<Resources>>;

/// A UC QP.
pub(crate) type Uc = Connected<UcQp>;

impl<C: ConnectedQp> Connected<C> {
    /// A QP without a path.
    pub(crate) fn new(conn: C) -> Self {
        let link = Link {
            path: None,
            loopback: true,
            read_keys: KVec::new(),
            write_key: None,
            peer_cache: None,
            kept: KeptPackets::new(),
        };
        Connected { conn, link }
    }

    /// Whether this end takes the loopback to QP `qpn` of this device, if it is connected to that.
    pub(super) fn loopback_to(&self, qpn: u32) -> Option<bool> {
        let connected = self.link.path.is_some() && self.conn.attr().dest_qpn.get() == qpn;
        connected.then_some(self.link.loopback)
    }

    /// Moves to the error state, which any state may become.
    pub(super) fn fail_connected(&mut self) {
        let state = Some(State::Err);
        let _ = self.conn.modify(&Modify {
            state,
            ..Modify::default()
        });
    }

    /// Changes attributes, the state, and the path. See `Service::modify`.
    pub(super) fn modify_connected(&mut self, qp: &QpContext, attr: &QpAttr<'_>) -> Result {
        let mut change = connected_change(attr);
        let dest = change.dest_qpn.unwrap_or(self.conn.attr().dest_qpn.get());
        let path = match attr.av() {
            Some(av) => Some(Path::new(av, (qp.qpn, dest), self.link.loopback)?),
            None => None,
        };
        if let Some(path) = &path {
            let other = |old: &Path| old.is_loopback() != path.is_loopback();
            // In-flight requests are already segmented for packets of the old path.
            if self.link.path.as_ref().is_some_and(other) {
                return Err(EINVAL);
            }
            if path.is_loopback() {
                change.pmtu = change.pmtu.map(|_| LOOPBACK_MTU);
            }
        }
        self.conn.modify(&change).map_err(|_| EINVAL)?;
        if !self.conn.state().responds() {
            self.link.kept.clear();
        }
        if path.is_some() {
            self.link.path = path;
        }
        Ok(())
    }

    /// Builds packets until none is due or the batch is full.
    #[inline]
    pub(super) fn transmit_connected<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        now: Instant,
        batch: &mut Batch<'_, Q>,
    ) -> Progress {
        if self.link.path.as_ref().is_some_and(Path::is_loopback) {
            return self.transmit_loopback(qp, sq, now, &mut batch.loopback);
        }
        let Some(path) = self.link.path.as_mut() else {
            // Without a path there are no packets. The poll notices requests with a local error
            // when their turn comes.
            let _ = self.conn.poll_transmit(now, 1, sq);
            return Progress::Idle;
        };
        let whole = Whole::of(self.conn.attr().pmtu.bytes());
        while !batch.is_full() {
            if batch.must_wait() {
                return Progress::Idle;
            }
            // By reference: to move it costs more than much of what follows.
            let Some(transmit) = &self.conn.poll_transmit(now, batch.remaining(&whole), sq) else {
                return local_ops::carry_out_next(qp, &mut self.conn, sq);
            };
            let (keys, slots) = (&self.link.read_keys, &*sq);
            let packets = Packets {
                repr: &transmit.header,
                count: transmit.segments,
                segment_size: transmit.segment_size(),
            };
            if self.conn.reacts() {
                batch.set_ecn_capable(path, !transmit.payload.is_empty());
            }
            let more = || self.conn.followers(transmit, slots);
            let built = batch.add(&qp.port, path, &packets, more, |skip, len, out| {
                payload(qp, &transmit.payload, slots, keys, (skip, len), out)
            });
            let Err(Unsent { why, done }) = built else {
                trace::transmit(qp, transmit, transmit.segments, false);
                continue;
            };
            trace::transmit(qp, transmit, done, false);
            let Some(rest) = transmit.rest(done) else {
                continue;
            };
            match why {
                // The packet counts as lost on the wire, and others would be, too, each after a
                // route lookup.
                NoPacket::NoRoute if self.conn.lose(&rest, sq) => batch.skip(),
                NoPacket::NoRoute => return Progress::Idle,
                NoPacket::NoMemory => {
                    self.conn.undo(&rest, sq);
                    return Progress::Stalled;
                }
                NoPacket::Payload(MemError::NotPresent) => {
                    self.conn.undo(&rest, sq);
                    return Progress::PageFault;
                }
                NoPacket::Payload(why) => self.conn.local_error(&rest, why.into(), sq),
            }
        }
        Progress::More
    }

    /// Queues loopback packets until none is due or the queue is full.
    #[inline]
    fn transmit_loopback(
        &mut self,
        qp: &QpContext,
        sq: &mut SendQueue,
        now: Instant,
        loopback: &mut LoopbackQueue,
    ) -> Progress {
        if loopback.reserve(sq.payer()).is_err() {
            return Progress::Stalled;
        }
        let Some(path) = &mut self.link.path else {
            return self.lose(qp, sq, now);
        };
        if !path.is_local(&qp.port) {
            return self.lose(qp, sq, now);
        }
        while !loopback.is_full() {
            let Some(transmit) = &self.conn.poll_transmit(now, 1, sq) else {
                // A local request may end the key of memory that queued packets refer to: they are
                // delivered first, as packets for the wire have their payload then.
                if sq.has_barrier() && !loopback.is_empty() {
                    return Progress::More;
                }
                return local_ops::carry_out_next(qp, &mut self.conn, sq);
            };
            let source = source(qp, &transmit.payload, sq, &self.link.read_keys);
            match source {
                Ok(source) => {
                    self.conn.lend(transmit);
                    trace::transmit(qp, transmit, 1, true);
                    loopback.put(LoopbackPacket {
                        repr: transmit.header,
                        sender: LoopbackOrigin::connected(qp.qpn, path),
                        len: transmit.payload.len(),
                        source,
                    });
                }
                Err(PayloadError::NoMemory) => {
                    self.conn.undo(transmit, sq);
                    return Progress::Stalled;
                }
                Err(PayloadError::Gone(MemError::NotPresent)) => {
                    self.conn.undo(transmit, sq);
                    return Progress::PageFault;
                }
                Err(PayloadError::Gone(why)) => {
                    self.conn.local_error(transmit, why.into(), sq);
                }
            }
        }
        Progress::More
    }

    /// Drops due packets as if there were no route: the peer's address or this side's has left the
    /// device. The connection cannot change over to the wire.
    #[cold]
    fn lose(&mut self, qp: &QpContext, sq: &mut SendQueue, now: Instant) -> Progress {
        loop {
            let Some(transmit) = self.conn.poll_transmit(now, 1, sq) else {
                return local_ops::carry_out_next(qp, &mut self.conn, sq);
            };
            qp.port.counters.count(Count::SendErrors);
            if !self.conn.lose(&transmit, sq) {
                return Progress::Idle;
            }
        }
    }

    /// Passes a received packet to the connection.
    #[inline]
    pub(super) fn handle_connected(
        &mut self,
        qp: &QpContext,
        (sq, rq): (&mut SendQueue, &mut RecvQueue),
        now: Instant,
        packet: RxPacket<'_>,
        deferred: &mut Deferred,
    ) -> Result<(), Dropped> {
        // Without a path the queue pair has no peer yet.
        let path = self.link.path.as_ref();
        let path = path.ok_or(Dropped::Transport(DropReason::State))?;
        // A connection takes packets from its peer alone.
        if !packet.arrived_on(path) {
            return Err(Dropped::Address(Count::WrongAddress));
        }
        if packet.namespace() != path.namespace() {
            return Err(Dropped::Address(Count::WrongNamespace));
        }
        if !packet.may_be_from(self.conn.attr().dest_qpn.get()) {
            return Err(Dropped::Address(Count::WrongSrcQp));
        }
        let count = packet.count();
        let mut env = Env {
            qp,
            packet,
            sq,
            rq,
            read_keys: &mut self.link.read_keys,
            write_key: &mut self.link.write_key,
            peer_cache: &mut self.link.peer_cache,
            kept: &mut self.link.kept,
            deferred,
        };
        match self
            .conn
            .handle_segments(now, packet.repr(), count, packet.payload_len(), &mut env)
        {
            Verdict::Accepted => Ok(()),
            Verdict::Dropped(cause) => Err(Dropped::Transport(cause)),
        }
    }

    /// Builds a CNP to the peer. See `Service::notify`.
    pub(super) fn notify_connected<Q: TxLimitHandler>(
        &mut self,
        qp: &QpContext,
        header: &PacketRepr,
        batch: &mut Batch<'_, Q>,
    ) -> Result<(), NoPacket> {
        let path = self.link.path.as_mut().ok_or(NoPacket::NoRoute)?;
        path.with_cnp_class(|path| batch.add_single(&qp.port, path, header))
    }
}

/// Copies `len` bytes of a payload, after the first `skip`, into packets.
#[inline]
fn payload(
    qp: &QpContext,
    payload: &Payload,
    slots: &SendQueue,
    keys: &ReadKeys,
    (skip, len): (u32, usize),
    out: &mut StridedDst<'_>,
) -> Result<(), MemError> {
    match *payload {
        Payload::None => Ok(()),
        Payload::Request { n, offset, .. } => slots.gather(n, offset.wrapping_add(skip), len, out),
        Payload::Read {
            res,
            va,
            rkey,
            offset,
            ..
        } => {
            let at = offset.wrapping_add(skip);
            let again;
            let (grant, at) = match keys.get(usize::from(res)) {
                Some(Some(grant)) => (grant, at),
                _ => {
                    again = read_again(qp, va, rkey, (at, len as u32))?;
                    (&again, 0)
                }
            };
            grant.for_each_chunk(at, len, |bytes| out.put(bytes))
        }
    }
}

/// A reference to a payload.
#[inline]
fn source(
    qp: &QpContext,
    payload: &Payload,
    slots: &SendQueue,
    keys: &ReadKeys,
) -> Result<PayloadRef, PayloadError> {
    match *payload {
        Payload::None => Ok(PayloadRef::None),
        Payload::Request { n, offset, len } => slots.source(n, offset, len),
        Payload::Read {
            res,
            va,
            rkey,
            offset,
            len,
        } => {
            let grant = match keys.get(usize::from(res)) {
                Some(Some(grant)) => grant.part(offset, len)?,
                _ => read_again(qp, va, rkey, (offset, len))?,
            };
            Ok(PayloadRef::Region(grant))
        }
    }
}

/// Looks up the key of a READ again, for the part that is to be sent. The grant was dropped when
/// the number of READs that the peer may have outstanding was changed.
#[cold]
fn read_again(
    qp: &QpContext,
    va: u64,
    rkey: u32,
    (offset, len): (u32, u32),
) -> Result<Grant, MemError> {
    let range = (va.wrapping_add(offset.into()), len);
    lookup(qp, rkey, range, Access::REMOTE_READ, &mut None)
}
