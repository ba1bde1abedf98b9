// SPDX-License-Identifier: GPL-2.0

//! oxe: a soft-RoCEv2 RDMA provider. It turns any network interface into an RDMA device.
//!
//! `rdma link add oxe0 type oxe netdev eth0` makes a device. See Documentation/architecture.rst.

use kernel::prelude::*;

// First, as `device/uabi` uses its macros.
#[macro_use]
mod ffi;

mod device;
mod net;
pub mod proto;
mod rdma;
mod sync;

use device::{Addresses, Controller, NetdevNotifier, Oxe, Settings};
use ffi::compat::{congestion_control, parameter};
use net::addr::AddrNotifier;
use rdma::client::Client;
use rdma::debugfs;
use rdma::exclude::Exclusion;
use rdma::link::Links;

module! {
    type: OxeModule,
    name: "oxe",
    authors: ["The oxe developers"],
    description: "Soft RoCEv2 RDMA provider",
    license: "GPL",
    alias: ["rdma-link-oxe"],
    params: {
        gids: u16 {
            default: 1024,
            description: "length of a port's GID table, 16 to 1024; a shorter one is made faster",
        },
        loopback: u8 {
            default: 1,
            description: "0: what goes from a device to itself takes the way of packets, for tests",
        },
        segmentation: u8 {
            default: 1,
            description: "0: send no super-packets (UDP GSO), for NICs that give wrong IPv4 IDs",
        },
        keep_responses: u8 {
            default: 1,
            description: "0: after a lost READ response ask for all behind it again, as for writes",
        },
        keep_requests: u8 {
            default: 1,
            description: "0: after a lost request packet send all behind it again, and keep none",
        },
        roce_np: u8 {
            default: 1,
            description: "0: send no CNPs to the senders of packets that are marked CE (ECN)",
        },
        np_min_time_between_cnps: u32 {
            default: 4,
            description: "microseconds between two CNPs of a queue pair, at least",
        },
        rxe_compat: u8 {
            default: 0,
            description: "1: also answer to the link type rxe",
        },
    },
}

/// The settings that the module's parameters give.
fn settings() -> Settings {
    Settings {
        controller: Controller::numbered(congestion_control()).unwrap_or(Controller::Cubic),
        roce_np: parameter::<u8>(module_parameters::roce_np.value()) != 0,
        np_min_time_between_cnps: parameter(module_parameters::np_min_time_between_cnps.value()),
        gids: parameter(module_parameters::gids.value()),
        keep_responses: parameter::<u8>(module_parameters::keep_responses.value()) != 0,
        keep_requests: parameter::<u8>(module_parameters::keep_requests.value()) != 0,
        loopback: parameter::<u8>(module_parameters::loopback.value()) != 0,
        segmentation: parameter::<u8>(module_parameters::segmentation.value()) != 0,
    }
}

/// The module's state while it is loaded. The fields are dropped in this order: first the link
/// types, so that no device can be made any more and all devices go; then everything that devices
/// depend on.
#[pin_data]
struct OxeModule {
    links: Links<Oxe>,
    client: Client<Oxe>,
    debugfs: debugfs::Root,
    #[pin]
    netdev_notifier: NetdevNotifier,
    addr_notifier: AddrNotifier<Addresses>,
    namespaces: net::udp::Namespaces,
    exclusion: Pin<KBox<Exclusion>>,
    queues: sync::work::Queues,
    faults: rdma::fault::Faults,
    page_cache: net::page_cache::PageCache,
    reclaim: sync::table::Reclaim,
}

impl kernel::InPlaceModule for OxeModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let compat = parameter::<u8>(module_parameters::rxe_compat.value()) != 0;
        settings().provide();
        try_pin_init!(Self {
            reclaim: sync::table::Reclaim,
            page_cache: net::page_cache::PageCache::new()?,
            faults: rdma::fault::Faults::new()?,
            queues: sync::work::Queues::new()?,
            exclusion: Exclusion::new(c"rdma_rxe", device::RXE)?,
            namespaces: net::udp::Namespaces::new()?,
            addr_notifier: AddrNotifier::new()?,
            netdev_notifier <- NetdevNotifier::new(),
            debugfs: debugfs::Root::new(),
            client: Client::register(c"oxe")?,
            links: Links::register(module, c"oxe", compat.then_some(c"rxe"))?,
        })
    }
}
