// SPDX-License-Identifier: GPL-2.0

//! The counters of a port that tell of something wrong, and what helps. Documentation/counters.rst
//! describes all of them.

/// A counter.
pub(crate) struct Counter {
    pub(crate) name: &'static str,
    /// The meaning of the count.
    pub(crate) text: &'static str,
    /// The remedy.
    pub(crate) remedy: &'static str,
}

const fn counter(name: &'static str, text: &'static str, remedy: &'static str) -> Counter {
    Counter { name, text, remedy }
}

const FOREIGN: &str =
    "Something other than a RoCEv2 device sends to UDP port 4791 here: tcpdump -ni \
                       NETDEV udp port 4791 shows who.";
const LOSS: &str = "The network loses or reorders packets: ip -s link and tc -s qdisc show where \
                    on both hosts.";
const RECEIVES: &str = "Post more receives, or post them sooner.";

/// Counters that stay at 0 where all is well.
pub(crate) const ERRORS: &[Counter] = &[
    counter(
        "send_err",
        "packets that were not sent, as no route led to the peer or the stack refused them.",
        "See to the route: oxe check ADDRESS of the peer.",
    ),
    counter(
        "send_no_memory",
        "packets for which there was no memory.",
        "Give the machine or the memory cgroup more memory.",
    ),
    counter(
        "rcvd_too_short",
        "datagrams that end within their headers.",
        FOREIGN,
    ),
    counter(
        "rcvd_bad_version",
        "datagrams of another transport version.",
        FOREIGN,
    ),
    counter(
        "rcvd_unknown_opcode",
        "packets of an opcode that does not exist.",
        FOREIGN,
    ),
    counter("rcvd_bad_pad", "packets of a wrong pad count.", FOREIGN),
    counter(
        "rcvd_length_underflow",
        "packets without room for their ICRC.",
        FOREIGN,
    ),
    counter(
        "rcvd_unexpected_payload",
        "packets with a payload that their opcode lacks.",
        FOREIGN,
    ),
    counter(
        "rcvd_bad_icrc",
        "packets of a wrong ICRC: they were changed on their way.",
        "Give both ends addresses that reach each other without NAT. If rcvd_bad_icrc_gso is as \
         large, load oxe at the sender with segmentation=0.",
    ),
    counter(
        "rcvd_no_qp",
        "packets to a QP that does not exist.",
        "The peer sends to a QP that was destroyed, or has a wrong QP number.",
    ),
    counter(
        "rcvd_wrong_address",
        "packets from or to another address than the connection's.",
        "See to the GID indices of both ends (oxe gids), and to hosts with several addresses.",
    ),
    counter(
        "rcvd_wrong_netns",
        "packets that arrived in another network namespace than the connection's.",
        "Documentation/addresses.rst has which namespaces reach each other.",
    ),
    counter(
        "rcvd_wrong_src_qp",
        "messages by loopback from a QP that is not the peer of its destination.",
        "See to the QP numbers that the programs exchange.",
    ),
    counter(
        "rcvd_group_overflow",
        "packets to a multicast group of more QPs than are served at this rate.",
        "Send more slowly, or use fewer QPs a group.",
    ),
    counter(
        "rcvd_qp_state",
        "packets to a QP that is not connected yet, or is in the error state.",
        "oxe why (of QPs) tells why it is in error; else the peer sends before this end is in RTR.",
    ),
    counter(
        "rcvd_wrong_service",
        "packets of another transport service than the QP's.",
        "See to the QP types and numbers of both ends.",
    ),
    counter(
        "rcvd_bad_pkey",
        "packets of another P_Key.",
        "Use the default P_Key, 0xffff.",
    ),
    counter(
        "rcvd_bad_qkey",
        "datagrams of a wrong Q_Key.",
        "Give sender and receiver the same Q_Key.",
    ),
    counter(
        "rp_cnp_ignored",
        "congestion notification packets to queue pairs that do not react.",
        "The network marks packets (ECN): congestion_control=dcqcn has connections react.",
    ),
    counter(
        "out_of_buffer",
        "datagrams or messages of UC for which no receive was posted.",
        RECEIVES,
    ),
    counter(
        "rcvd_longer_than_buffer",
        "datagrams or messages of UC that are longer than the receive.",
        "Post larger receives; one of UD needs 40 bytes more than the payload.",
    ),
    counter(
        "rcvd_too_long",
        "packets that are longer than the path MTU.",
        "Give both ends the same path MTU, and both netdevs the same MTU.",
    ),
    counter("rcvd_no_grh", "datagrams without an IP header.", FOREIGN),
    counter(
        "sent_rnr_err",
        "requests for which no receive was posted; they come again.",
        RECEIVES,
    ),
    counter(
        "out_of_seq_request",
        "requests after a gap: packets were lost or overtaken.",
        LOSS,
    ),
    counter(
        "unknown_duplicate",
        "repeated requests that this end has no record of.",
        LOSS,
    ),
    counter(
        "duplicate_read_denied",
        "repeated READs of a memory region that is gone.",
        "Deregister memory only when the peer's READs are complete.",
    ),
    counter(
        "refused_request",
        "requests of peers that were refused.",
        "See to the peers' rkeys, ranges and lengths, and to access flags of regions and QPs here.",
    ),
    counter(
        "read_gaps",
        "gaps in READ responses: packets were lost or overtaken.",
        LOSS,
    ),
    counter(
        "ack_timeouts",
        "requests that the peer did not acknowledge in time.",
        "See whether the peer lives, and what it counts: oxe why there. Then the path to it: oxe \
         check ADDRESS.",
    ),
    counter(
        "rcvd_seq_err",
        "gaps that peers reported: packets were lost or overtaken.",
        LOSS,
    ),
    counter(
        "rcvd_rnr_err",
        "messages for which the peer had no receive posted; they are sent again.",
        "Let the peer post more receives, or post them sooner.",
    ),
    counter(
        "rcvd_inv_req_err",
        "requests that a peer refused as invalid.",
        "See to the length of the messages, and to what the peer's queue pair allows.",
    ),
    counter(
        "rcvd_access_err",
        "requests that a peer refused for its memory.",
        "See to rkeys, addresses and lengths, and to the access flags at the peer.",
    ),
    counter(
        "rcvd_op_err",
        "requests at which a peer failed for its own reasons.",
        "See to the peer: its receive names memory that it cannot use, or its process has ended.",
    ),
    counter(
        "response_gap",
        "responses after a gap: packets were lost or overtaken.",
        LOSS,
    ),
    counter(
        "bad_response",
        "responses that are not what was asked for.",
        "See whether the peer has reset its QP, and what device it has.",
    ),
    counter(
        "response_place_err",
        "responses for which this end's memory region was gone.",
        "Deregister memory only when its requests are complete.",
    ),
];

#[cfg(test)]
mod tests {
    use super::ERRORS;
    use std::collections::BTreeSet;

    /// Counters that move where all is well, or only tell more of one above.
    const OTHERS: &[&str] = &[
        "sent_pkts",
        "rcvd_pkts",
        "sent_bytes",
        "rcvd_bytes",
        "link_downed",
        "np_ecn_marked_roce_packets",
        "np_cnp_sent",
        "rp_cnp_handled",
        "rcvd_bad_icrc_gso",
        "retransmits",
        "kept_requests",
        "duplicate_request",
        "page_fault",
        "early_ack",
        "ghost_ack",
        "duplicate_nak",
    ];

    /// The names that counters.rst describes, which the checks compare with the module's.
    fn documented() -> BTreeSet<&'static str> {
        let text = include_str!("../../../Documentation/counters.rst");
        text.lines()
            .filter_map(|line| line.strip_prefix("``")?.split_once("``"))
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn each_counter_is_an_error_or_is_not() {
        let errors = ERRORS.iter().map(|counter| counter.name);
        let known: BTreeSet<_> = errors.chain(OTHERS.iter().copied()).collect();
        let differ: Vec<_> = known.symmetric_difference(&documented()).copied().collect();
        assert_eq!(differ, [""; 0], "only in counters.rst, or not there");
        assert_eq!(
            ERRORS.len() + OTHERS.len(),
            known.len(),
            "a counter is in both"
        );
    }
}
