// SPDX-License-Identifier: GPL-2.0

//! The interface of a connected queue pair, RC or UC, to its owner.

use super::wire::{PacketRepr, Service};
use super::{
    Attr, DropReason, Events, Instant, Invalid, Modify, RequestQueue, RequesterOps, ResponderOps,
    SendCompletion, State, Status, Transmit, Verdict,
};

/// The protocol state of one connected queue pair.
///
/// The owner serialises the calls. None of them blocks; all may be made in any context.
pub trait ConnectedQp {
    /// The state.
    fn state(&self) -> State;

    /// The current attributes.
    fn attr(&self) -> &Attr;

    /// Whether the QP takes packets now, and this is one of its `service` and partition.
    ///
    /// # Errors
    ///
    /// The reason for which it is dropped.
    #[inline]
    fn check_packet(&self, pkt: &PacketRepr, service: Service) -> Result<(), DropReason> {
        if !self.state().responds() {
            return Err(DropReason::State);
        }
        match pkt.bth.opcode.info().service {
            of if of == service => {}
            Service::Cnp => return Err(DropReason::Cnp),
            _ => return Err(DropReason::Service),
        }
        // IBTA 9.6.1.1 and 10.9.3.
        if !pkt.bth.pkey.matches(self.attr().pkey) {
            return Err(DropReason::PKey);
        }
        Ok(())
    }

    /// Whether the QP reacts to congestion notifications: its packets with payload are ECN-capable.
    #[inline]
    fn reacts(&self) -> bool {
        false
    }

    /// Changes attributes and, perhaps, the state: all of it or nothing. The caller checks which
    /// attributes a transition allows. In the reset state all attributes are forgotten, and
    /// requests count from 0 again.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when a value is out of its range or there is no such transition.
    fn modify(&mut self, change: &Modify) -> Result<(), Invalid>;

    /// Whether a receive request is in use whose message will never be finished. The owner asks in
    /// the error and reset state, and flushes that request before the others. Returns `true` once
    /// for each.
    fn abandon_recv(&mut self) -> bool;

    /// The next packet to send, or up to `max_segments` packets that differ in PSN and payload
    /// alone, as one [`Transmit`]. `None` when no packet may be sent now.
    fn poll_transmit<Q: RequestQueue>(
        &mut self,
        now: Instant,
        max_segments: u16,
        q: &mut Q,
    ) -> Option<Transmit>;

    /// How many packets of the same length will probably follow `transmit`, which
    /// [`ConnectedQp::poll_transmit`] has just returned. More or fewer may follow.
    fn followers<Q: RequestQueue>(&self, transmit: &Transmit, q: &Q) -> u32;

    /// Whether [`ConnectedQp::poll_transmit`] may return a packet. If this is false, it returns
    /// none.
    fn may_transmit<Q: RequestQueue>(&self, q: &Q) -> bool;

    /// The packets of `t` were never sent, for example for want of memory.
    /// [`ConnectedQp::poll_transmit`] will return them again, perhaps after other packets. If the
    /// first segments were sent, `t` is the rest of it ([`Transmit::rest`]).
    fn undo<Q: RequestQueue>(&mut self, t: &Transmit, q: &mut Q);

    /// There is no route to the peer now: the packets of `t` count as lost on the wire. Returns
    /// whether others are to be tried, which would probably be lost, too.
    fn lose<Q: RequestQueue>(&mut self, t: &Transmit, q: &Q) -> bool;

    /// The payload of the packets of `t` could not be read, and they were not sent; if the first
    /// segments were, `t` is the rest of it. A request completes with `status` when all before it
    /// are complete.
    fn local_error<Q: RequestQueue>(&mut self, t: &Transmit, status: Status, q: &mut Q);

    /// The request whose turn it is, if it sends nothing ([`SendOp::Local`](super::SendOp::Local)):
    /// the owner carries it out, and calls [`ConnectedQp::finish_local`]. To be called when
    /// [`ConnectedQp::poll_transmit`] has returned `None`, which is to be polled again afterwards.
    fn poll_local<Q: RequestQueue>(&self, q: &Q) -> Option<u32>;

    /// The request that [`ConnectedQp::poll_local`] returned was carried out, or has failed with
    /// this status.
    fn finish_local<Q: RequestQueue>(&mut self, result: Result<(), Status>, q: &mut Q);

    /// The owner refers to the payload of `t`, and copies it later: until it calls
    /// [`ConnectedQp::release`] no request completes that needs it.
    fn lend(&mut self, t: &Transmit);

    /// The owner has copied the payload of each packet that was returned. Returns whether a request
    /// was waiting for that.
    fn release(&mut self) -> bool;

    /// The next completion of a send request, in the order of posting. In the error state every
    /// posted request is flushed.
    fn poll_send_completion<Q: RequestQueue>(&mut self, q: &mut Q) -> Option<SendCompletion>;

    /// How many packets may be given to [`ConnectedQp::handle_segments`] at a time, where `pkt` is
    /// the first, with `payload_len` bytes of payload. More than one if it is the expected packet,
    /// and a middle one of its message.
    fn max_segments<Q: RequestQueue>(&self, pkt: &PacketRepr, payload_len: u32, q: &Q) -> u16;

    /// Processes `segments` packets for this QP, that differ only in PSN and AckReq. The PSNs are
    /// consecutive. AckReq is set in `pkt` if it was set in any of them. There are no more than
    /// [`ConnectedQp::max_segments`] returned just before. Each has `payload_len` bytes of payload,
    /// and `env` can access all. The caller has checked everything below the transport: address,
    /// length, ICRC.
    ///
    /// All are taken, or all are refused with the PSN of the first, as they are of one message.
    fn handle_segments<E: RequestQueue + RequesterOps + ResponderOps>(
        &mut self,
        now: Instant,
        pkt: &PacketRepr,
        segments: u16,
        payload_len: u32,
        env: &mut E,
    ) -> Verdict;

    /// The events since the last call.
    fn take_events(&mut self) -> Events;
}
