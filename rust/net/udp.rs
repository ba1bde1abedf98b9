// SPDX-License-Identifier: GPL-2.0

//! The UDP sockets that receive packets: one for IPv4 and one for IPv6 in each network namespace
//! that has users, however many.
//!
//! The sockets do not keep a namespace alive. A user drops its [`Tunnel`] when its network device
//! leaves ([`super::notifier::Event::Unregister`]). Sockets that are still open when their
//! namespace ends are closed then.

use super::netdev::{Namespace, NetDevice};
use super::skb::RxSkb;
use crate::ffi;
use core::ptr::{null_mut, NonNull};
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};

/// Receives packets.
pub(crate) trait Receiver: 'static {
    /// The UDP port.
    const PORT: u16;

    /// The least UDP payload of a datagram that is of any use, in bytes.
    const MIN_LEN: u32;

    /// A packet arrived by the device `dev` (the loopback device, if this machine sent it to
    /// itself).
    ///
    /// Softirq context, under RCU: an implementation that keeps `dev` for longer takes a reference
    /// (`hold`). Packets are independent of each other: several CPUs may call this concurrently,
    /// even for packets of one sender.
    fn receive(packet: RxSkb, dev: &NetDevice);
}

/// The sockets of a namespace.
struct Sockets {
    /// The identifier by which [`Tunnel`]s refer to them.
    id: u64,
    namespace: Namespace,
    /// Held for their drop; that of IPv6 is absent if the kernel has no IPv6.
    _sockets: (Socket, Option<Socket>),
    users: usize,
}

struct List {
    sockets: KVec<Sockets>,
    next_id: u64,
}

kernel::sync::global_lock! {
    // SAFETY: initialised by `Namespaces::new`, without which no `Tunnel` can be opened.
    unsafe(uninit) static LIST: Mutex<List> = List {
        sockets: KVec::new(),
        next_id: 0,
    };
}

/// Whether `LIST` is initialised and namespaces are watched: not yet, now, or not any more.
static WATCHING: Atomic<u32> = Atomic::new(UNUSED);
const UNUSED: u32 = 0;
const STARTED: u32 = 1;
const ENDED: u32 = 2;

/// Closes the sockets of namespaces that end. Made at module load, before the first [`Tunnel`] is
/// opened; dropped at unload, after the last one is dropped.
pub(crate) struct Namespaces(());

impl Namespaces {
    /// Begins to watch. Process context, without the RTNL lock. `EBUSY` if it was called before.
    pub(crate) fn new() -> Result<Self> {
        if WATCHING.cmpxchg(UNUSED, ENDED, Full).is_err() {
            return Err(EBUSY);
        }
        // SAFETY: `WATCHING` ensures that it is called once.
        unsafe { LIST.init() };
        // SAFETY: `ended` may be called from now on until `drop` has unregistered it.
        to_result(unsafe { ffi::oxe_net_register(Some(ended)) })?;
        WATCHING.store(STARTED, Release);
        Ok(Self(()))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        WATCHING.store(ENDED, Release);
        // SAFETY: it was registered. This calls `ended` for each namespace there is.
        unsafe { ffi::oxe_net_unregister() };
        // Statics are not dropped, so the list's memory is to be given back here.
        LIST.lock().sockets = KVec::new();
    }
}

/// Closes the sockets that are still open in a namespace that ends.
///
/// # Safety
///
/// Called by the namespace code. Process context.
unsafe extern "C" fn ended(net: *mut ffi::net) {
    let mut list = LIST.lock();
    // SAFETY: the namespace has not ended yet.
    let namespace = Namespace(unsafe { ffi::oxe_net_cookie(net) });
    let found = list.sockets.iter().position(|s| s.namespace == namespace);
    if let Some(at) = found {
        pr_warn!("udp: a network namespace ended with sockets in use\n");
        drop(list.sockets.remove(at));
        drop(list);
        synchronize();
    }
}

/// One counted use of the sockets of a namespace.
pub(crate) struct Tunnel {
    id: u64,
}

impl Tunnel {
    /// Opens the sockets in the namespace where `dev` is, unless they are open. Process context,
    /// with or without the RTNL lock.
    ///
    /// `EADDRINUSE` if another socket has the port, `ENODEV` if the namespace is about to end,
    /// `ENOMEM`.
    pub(crate) fn open<R: Receiver>(dev: &NetDevice) -> Result<Self> {
        if WATCHING.load(Acquire) != STARTED {
            return Err(ENODEV);
        }
        let net = Net::of(dev).ok_or(ENODEV)?;
        let mut list = LIST.lock();
        let namespace = net.id();
        if let Some(sockets) = list.sockets.iter_mut().find(|s| s.namespace == namespace) {
            sockets.users += 1;
            return Ok(Self { id: sockets.id });
        }
        list.sockets.reserve(1, GFP_KERNEL)?;
        let v4 = Socket::open::<R>(&net, false)?;
        let v6 = match Socket::open::<R>(&net, true) {
            Ok(socket) => Some(socket),
            // EAFNOSUPPORT: the kernel has no IPv6, or it was switched off at boot.
            Err(error) if error.to_errno() == -97 => None,
            Err(error) => return Err(error),
        };
        let id = list.next_id;
        list.next_id = id.wrapping_add(1);
        let sockets = Sockets {
            id,
            namespace,
            _sockets: (v4, v6),
            users: 1,
        };
        list.sockets.push(sockets, GFP_KERNEL)?;
        Ok(Self { id })
    }
}

impl Tunnel {
    /// Whether the sockets are open in that namespace. Process context.
    pub(crate) fn is_in(&self, namespace: Option<Namespace>) -> bool {
        let list = LIST.lock();
        let ours = list.sockets.iter().find(|s| s.id == self.id);
        ours.is_some_and(|s| namespace == Some(s.namespace))
    }
}

impl Drop for Tunnel {
    /// Closes the sockets if there is no other user. If so, each call of the receiver that had
    /// begun is over when it returns. Process context, with or without the RTNL lock.
    fn drop(&mut self) {
        // The sockets are closed under the lock, so that the port is free when the next user opens
        // it.
        let mut list = LIST.lock();
        // Nothing is found if the namespace ended before.
        let Some(at) = list.sockets.iter().position(|s| s.id == self.id) else {
            return;
        };
        let Some(sockets) = list.sockets.get_mut(at) else {
            return;
        };
        sockets.users = sockets.users.saturating_sub(1);
        if sockets.users == 0 {
            drop(list.sockets.remove(at));
            drop(list);
            synchronize();
        }
    }
}

/// Waits until each call of a receiver that has begun is over. Process context.
pub(crate) fn synchronize() {
    // SAFETY: may be called wherever sleeping is allowed.
    unsafe { ffi::oxe_udp_synchronize() };
}

/// A reference to a network namespace.
struct Net(NonNull<ffi::net>);

impl Net {
    /// The namespace where `dev` is, unless that is about to end.
    fn of(dev: &NetDevice) -> Option<Self> {
        // SAFETY: the device lives.
        NonNull::new(unsafe { ffi::oxe_net_get(dev.as_raw()) }).map(Net)
    }

    /// Its identity.
    fn id(&self) -> Namespace {
        // SAFETY: the namespace is held.
        Namespace(unsafe { ffi::oxe_net_cookie(self.0.as_ptr()) })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { ffi::oxe_net_put(self.0.as_ptr()) };
    }
}

/// An open socket, closed when dropped (process context).
struct Socket(NonNull<ffi::sock>);

// SAFETY: it may be closed by any thread.
unsafe impl Send for Socket {}

impl Socket {
    /// Opens a socket in a namespace. The socket does not keep the namespace alive: it must be
    /// closed before the namespace ends.
    fn open<R: Receiver>(net: &Net, v6: bool) -> Result<Self> {
        let mut sock = null_mut();
        // SAFETY: the namespace is held, the callback is as the socket wants it, `sock` is
        // writable.
        to_result(unsafe {
            ffi::oxe_udp_open(
                net.0.as_ptr(),
                v6,
                R::PORT,
                Some(receive::<R>),
                Some(is_plain::<R>),
                &mut sock,
            )
        })?;
        NonNull::new(sock).map(Socket).ok_or(ENOMEM)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: the socket is ours, and not used again.
        unsafe { ffi::oxe_udp_close(self.0.as_ptr()) };
    }
}

/// Whether a packet may go to the receiver without the UDP layer, as that would pass it on
/// unchanged. The socket decides on the others. Softirq.
extern "C" fn is_plain<R: Receiver>(packet: ffi::oxe_arrival) -> bool {
    let whole = u32::from(packet.udp_len) == packet.len;
    let segments = packet.gso_size == 0 || packet.udp_gso && packet.gso_size >= R::MIN_LEN;
    packet.to_host && whole && segments && packet.checked
}

/// The sockets call this for each packet. Softirq, under RCU. Always consumes the packet.
///
/// # Safety
///
/// Called by UDP as `encap_rcv`, with a packet that is ours from now on.
unsafe extern "C" fn receive<R: Receiver>(_sk: *mut ffi::sock, skb: *mut ffi::sk_buff) -> c_int {
    if let Some(skb) = NonNull::new(skb) {
        // SAFETY: as this function's own requirements.
        if let Some(packet) = unsafe { RxSkb::new(skb) } {
            // SAFETY: the packet arrived in this RCU section, which lasts longer than the call.
            let dev = unsafe { packet.device() };
            R::receive(packet, dev);
        }
    }
    0
}
