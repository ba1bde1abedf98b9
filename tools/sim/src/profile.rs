// SPDX-License-Identifier: GPL-2.0

//! Profiles: what kind of network and program a seed meets. The profile gives the bounds, the seed
//! draws from them.

pub mod uc;

use crate::rng::{Ppm, Rng, Stream};

/// One microsecond in the unit of virtual time.
pub const US: u64 = 1_000;
/// One millisecond in the unit of virtual time.
pub const MS: u64 = 1_000_000;

/// The kinds of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A network without faults, often without retransmission timers: everything must work at the
    /// first attempt, and nothing may be dropped.
    Clean,
    /// Packets are lost.
    Lossy,
    /// Long messages and READs, of which packets are lost: requesters must send less.
    Bulk,
    /// Packets are duplicated, overtaken and late.
    Shuffle,
    /// Bits flip; the ICRC has to notice.
    Corrupt,
    /// All network faults at once.
    Storm,
    /// Receives are posted late or retries are few: RNR.
    NotReady,
    /// Requests that must fail, at either end.
    Errors,
    /// Links die for long, retries are few: retry counts run out.
    Exhaust,
    /// QPs are moved to error at random moments.
    Abort,
    /// Memory is deregistered while requests use it.
    Deregister,
    /// Send queues are drained and resumed (SQD), attributes change under traffic.
    Drain,
    /// The device fails to send packets of the protocol.
    TxFail,
    /// Unreliable datagrams beside connections.
    Datagram,
    /// Unreliable connections beside the others.
    Uc,
    /// One end of each connection is a stock implementation, on any network.
    Foreign,
    /// A third party sends forged, well-formed packets into connections.
    Hostile,
    /// Pages of memory are missing, on any network, at stock implementations, too.
    PageFaults,
}

use Profile::*;

impl Profile {
    /// All of them, in the order in which seeds are dealt out.
    pub const ALL: [Profile; 18] = [
        Clean, Lossy, Bulk, Shuffle, Corrupt, Storm, NotReady, Errors, Exhaust, Abort, Deregister,
        Drain, TxFail, Datagram, Uc, Foreign, Hostile, PageFaults,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Clean => "clean",
            Lossy => "lossy",
            Bulk => "bulk",
            Shuffle => "shuffle",
            Corrupt => "corrupt",
            Storm => "storm",
            NotReady => "not-ready",
            Errors => "errors",
            Exhaust => "exhaust",
            Abort => "abort",
            Deregister => "deregister",
            Drain => "drain",
            TxFail => "tx-fail",
            Datagram => "datagram",
            Uc => "uc",
            Foreign => "foreign",
            Hostile => "hostile",
            PageFaults => "page-faults",
        }
    }

    /// The profile of that name.
    pub fn from_name(name: &str) -> Option<Profile> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}

/// The impairments of the network until it heals.
#[derive(Clone, Debug, Default)]
pub struct Impairment {
    /// Packets lost.
    pub loss: Ppm,
    /// Packets sent twice.
    pub duplicate: Ppm,
    /// Packets held back so that others overtake them.
    pub reorder: Ppm,
    /// Packets with flipped bits.
    pub corrupt: Ppm,
    /// Time on the way, ns.
    pub delay: u64,
    /// At most this much more, ns, without reordering.
    pub jitter: u64,
    /// A held back packet is at most this late, ns.
    pub hold: u64,
    /// Mean time between blackouts of a link, ns; 0 for none.
    pub blackout_every: u64,
    /// Longest blackout, ns.
    pub blackout: u64,
}

impl Impairment {
    /// Whether packets may fail to arrive, or arrive late.
    pub fn is_ill(&self) -> bool {
        self.loss + self.duplicate + self.reorder + self.corrupt != 0 || self.blackout_every != 0
    }
}

/// All that a seed fixes before the run begins. Probabilities are per occasion.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The profile it was drawn for.
    pub profile: Profile,
    /// How the network is until `heal_at`.
    pub impairment: Impairment,
    /// When the network becomes well, ns.
    pub heal_at: u64,
    /// Hosts.
    pub hosts: usize,
    /// Connections.
    pub connections: usize,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Requests per send queue.
    pub requests: (u64, u64),
    /// Requests of a tick are at most so many.
    pub batch: u64,
    /// Range of the ACK timeout exponent.
    pub timeout: (u64, u64),
    /// Whether QPs may go without retransmission timers.
    pub no_timeout: bool,
    /// Range of the retry count.
    pub retry_cnt: (u64, u64),
    /// Range of the RNR retry count.
    pub rnr_retry: (u64, u64),
    /// Programs rest between posts for at most so long, ns.
    pub rest: u64,
    /// Programs answer each message that they receive by a request, at once.
    pub dialogue: bool,
    /// Receives are posted when they are needed, or late.
    pub late_receives: bool,
    /// The QPs of a host take their receives from one queue.
    pub srq: bool,
    /// Programs post local operations, and some connections have keys that live and die.
    pub local: bool,
    /// There are UC QPs.
    pub uc: bool,
    /// A flow has one request that must fail.
    pub fault: Ppm,
    /// A QP is moved to error at a random moment.
    pub kill: Ppm,
    /// Memory that a QP uses is deregistered.
    pub deregister: Ppm,
    /// A dead connection is used again.
    pub qp_reuse: Ppm,
    /// A tick pauses the send queue.
    pub pause: Ppm,
    /// A tick changes an attribute.
    pub change: Ppm,
    /// A packet cannot be sent.
    pub tx_fail: Ppm,
    /// Messages longer than a window.
    pub huge: Ppm,
    /// Memory has room for them in any case, and packets are small.
    pub large: bool,
    /// Timers go off late by at most this, ns.
    pub timer_slack: u64,
    /// The device looks for work so long after a packet, at most, ns.
    pub lazy: u64,
    /// A connection comes up at one end later than at the other.
    pub staggered: bool,
    /// Packets are forged.
    pub forge: Ppm,
    /// One end of each connection is the foreign peer.
    pub foreign: bool,
    /// An access to memory finds a page missing, at most so many in a row, until `heal_at`.
    pub absent: Ppm,
    pub absent_row: u64,
    /// The payload of a packet to be sent may be missing for so long, ns.
    pub absent_long: u64,
    /// Most segments of a super-packet.
    pub segments: u64,
}

impl Plan {
    /// Draws a plan.
    pub fn draw(profile: Profile, rng: &mut Rng) -> Plan {
        let mut plan = Plan {
            profile,
            impairment: Impairment {
                delay: rng.pick(&[US, 5 * US, 20 * US]),
                ..Impairment::default()
            },
            heal_at: rng.range(2, 40) * MS,
            hosts: if rng.one_in(5) { 3 } else { 2 },
            connections: rng.range(1, 3) as usize,
            ipv6: rng.one_in(3),
            requests: (5, 50),
            batch: rng.pick(&[1, 4, 16, 64]),
            timeout: (7, 12),
            no_timeout: false,
            retry_cnt: (7, 7),
            rnr_retry: (7, 7),
            rest: rng.pick(&[MS, MS, 50 * US]),
            dialogue: rng.one_in(3),
            late_receives: rng.one_in(4),
            srq: rng.one_in(4),
            local: false,
            uc: false,
            fault: 0,
            kill: 0,
            deregister: 0,
            qp_reuse: 0,
            pause: 0,
            change: 0,
            tx_fail: 0,
            huge: 10_000,
            large: false,
            timer_slack: rng.pick(&[0, 0, US, 100 * US]),
            lazy: rng.pick(&[0, 0, US, 30 * US]),
            staggered: false,
            forge: 0,
            foreign: false,
            absent: 0,
            absent_row: 0,
            absent_long: 0,
            segments: rng.pick(&[1, 3, 64]),
        };
        plan.adapt(rng);
        // Drawn aside: runs without are what they were before there was such a choice.
        if rng.clone().fork(Stream::LocalOperations).one_in(4) {
            plan.local = true;
            // Programs that post all at once cannot heed what they hear.
            plan.batch = plan.batch.min(4);
        }
        let mixed = matches!(profile, Lossy | Shuffle | Storm | Datagram);
        plan.uc = profile == Uc || mixed && rng.clone().fork(Stream::UcChoice).one_in(4);
        plan.uc |= profile == PageFaults && rng.clone().fork(Stream::UcChoice).one_in(2);
        plan
    }

    /// Adapts the plan to its profile.
    fn adapt(&mut self, rng: &mut Rng) {
        match self.profile {
            Clean => {
                self.no_timeout = rng.one_in(2);
                self.timeout = (14, 18);
                self.late_receives = rng.one_in(8);
                self.huge = 30_000;
            }
            Lossy => {
                self.impairment.loss = rng.pick(&[1_000, 10_000, 50_000, 150_000]);
                self.staggered = rng.one_in(3);
            }
            Bulk => {
                self.impairment.loss = rng.pick(&[1_000, 5_000, 20_000]);
                self.connections = 1;
                self.requests = (2, 8);
                self.batch = 16;
                self.huge = 600_000;
                self.large = true;
            }
            Shuffle => self.shuffle(rng),
            Corrupt => {
                self.impairment.corrupt = rng.pick(&[1_000, 20_000, 100_000]);
                self.impairment.jitter = rng.pick(&[0, 5 * US]);
            }
            Storm => self.storm(rng),
            NotReady => {
                self.late_receives = true;
                self.rnr_retry = rng.pick(&[(7, 7), (7, 7), (0, 6)]);
                self.storm_perhaps(rng);
            }
            Errors => {
                self.fault = 600_000;
                self.qp_reuse = 300_000;
                self.storm_perhaps(rng);
            }
            Exhaust => self.exhaust(rng),
            Abort => {
                self.kill = 500_000;
                self.qp_reuse = 500_000;
                self.storm_perhaps(rng);
            }
            Deregister => {
                self.deregister = 700_000;
                self.qp_reuse = 300_000;
                self.huge = 50_000;
                self.storm_perhaps(rng);
            }
            Drain => {
                self.pause = 200_000;
                self.change = 200_000;
                self.storm_perhaps(rng);
            }
            TxFail => {
                self.tx_fail = rng.pick(&[10_000, 100_000, 400_000]);
                self.storm_perhaps(rng);
            }
            Datagram => self.storm_perhaps(rng),
            Uc => {
                self.connections = 1;
                self.requests = (5, 20);
                self.storm_perhaps(rng);
            }
            Foreign => self.meet_foreign(rng),
            Hostile => {
                // Forged messages take receives that nobody posted for them.
                self.srq = false;
                self.forge = rng.pick(&[10_000, 100_000, 500_000]);
                self.fault = 100_000;
                self.kill = 100_000;
                self.pause = 20_000;
                self.tx_fail = rng.pick(&[0, 20_000]);
                self.storm_perhaps(rng);
            }
            PageFaults => self.miss_pages(rng),
        }
    }

    fn miss_pages(&mut self, rng: &mut Rng) {
        self.absent = rng.pick(&[10_000, 100_000, 300_000]);
        self.absent_row = rng.range(1, 4);
        self.absent_long = rng
            .clone()
            .fork(Stream::LongAbsence)
            .pick(&[0, MS, 10 * MS]);
        self.rnr_retry = rng.pick(&[(7, 7), (7, 7), (7, 7), (0, 6)]);
        self.huge = 50_000;
        self.kill = rng.pick(&[0, 0, 200_000]);
        self.qp_reuse = 500_000;
        self.foreign = rng.one_in(4);
        if !self.foreign {
            self.pause = rng.pick(&[0, 0, 100_000]);
            self.change = rng.pick(&[0, 0, 100_000]);
        }
        self.storm_perhaps(rng);
    }

    fn exhaust(&mut self, rng: &mut Rng) {
        self.impairment.blackout_every = rng.range(1, 10) * MS;
        self.impairment.blackout = rng.range(5, 200) * MS;
        self.impairment.loss = rng.pick(&[0, 10_000, 300_000]);
        self.retry_cnt = (0, 7);
        self.qp_reuse = 300_000;
        self.timeout = (4, 12);
        self.staggered = rng.one_in(2);
    }

    fn meet_foreign(&mut self, rng: &mut Rng) {
        self.foreign = true;
        self.large = rng.one_in(6);
        self.huge = 50_000;
        self.fault = rng.pick(&[0, 300_000]);
        self.kill = rng.pick(&[0, 100_000]);
        self.deregister = rng.pick(&[0, 0, 300_000]);
        self.qp_reuse = 500_000;
        if !rng.one_in(8) {
            self.storm(rng);
        }
    }

    fn storm_perhaps(&mut self, rng: &mut Rng) {
        if rng.one_in(2) {
            self.storm(rng);
        }
    }

    fn shuffle(&mut self, rng: &mut Rng) {
        let impairment = &mut self.impairment;
        impairment.duplicate = rng.pick(&[0, 10_000, 100_000, 300_000]);
        impairment.reorder = rng.pick(&[1_000, 20_000, 200_000]);
        impairment.jitter = rng.pick(&[0, 2 * US, 40 * US]);
        impairment.hold = rng.pick(&[10 * US, 200 * US, 5 * MS]);
    }

    fn storm(&mut self, rng: &mut Rng) {
        self.shuffle(rng);
        let impairment = &mut self.impairment;
        impairment.loss = rng.pick(&[0, 5_000, 30_000, 100_000]);
        impairment.corrupt = rng.pick(&[0, 5_000, 30_000]);
        self.staggered = rng.one_in(4);
        if rng.one_in(6) {
            impairment.blackout_every = rng.range(5, 20) * MS;
            impairment.blackout = rng.range(1, 3) * MS;
        }
    }
}

/// A PSN to begin with: often so that it soon wraps.
pub fn draw_psn(rng: &mut Rng) -> u32 {
    match rng.below(4) {
        0 => rng.next_u32() & 0xff_ffff,
        1 => 0,
        _ => 0xff_ffff - rng.below(60) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for profile in Profile::ALL {
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
        }
        assert_eq!(Profile::from_name("fair"), None);
    }
}
