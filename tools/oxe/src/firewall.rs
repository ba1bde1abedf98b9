// SPDX-License-Identifier: GPL-2.0

//! Does the firewall (nftables) let UDP port 4791 in? Read from `nft -j list ruleset`, which root
//! alone may.

use crate::problem::Problem;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// RoCEv2's port (annex A17).
pub(crate) const PORT: u64 = 4791;

/// What the rules say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Firewall {
    /// No rule of nftables drops what comes in.
    Open,
    /// A rule accepts the port.
    Accepts,
    /// This chain drops what no rule accepts, and none accepts the port; or it drops the port.
    Closed {
        family: String,
        table: String,
        chain: String,
    },
    /// The rules cannot be read: the reason.
    Unknown(&'static str),
}

impl Firewall {
    /// That of this network namespace.
    pub(crate) fn read() -> Self {
        let Ok(found) = Command::new("nft").args(["-j", "list", "ruleset"]).output() else {
            return Firewall::Unknown("nft is not installed");
        };
        if !found.status.success() {
            return Firewall::Unknown("reading the rules needs root");
        }
        match serde_json::from_slice(&found.stdout) {
            Ok(rules) => judge(&rules),
            Err(_) => Firewall::Unknown("nft's answer is no JSON"),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Firewall::Open => "no rule drops what comes in".to_owned(),
            Firewall::Accepts => format!("a rule accepts UDP port {PORT}"),
            Firewall::Closed { .. } => format!("UDP port {PORT} is closed"),
            Firewall::Unknown(why) => format!("unknown: {why}"),
        }
    }

    pub(crate) fn problem(&self) -> Option<Problem> {
        let Firewall::Closed {
            family,
            table,
            chain,
        } = self
        else {
            return None;
        };
        Some(Problem::new(
            "firewall",
            format!(
                "The firewall drops what peers send: no rule of chain {chain} in table {family} \
                 {table} accepts UDP port {PORT}."
            ),
            format!(
                "nft insert rule {family} {table} {chain} udp dport {PORT} accept\n\
                 With firewalld: firewall-cmd --add-port={PORT}/udp; with ufw: ufw allow {PORT}/udp"
            ),
        ))
    }
}

/// What a rule does with a packet to the port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Accept,
    Drop,
}

fn judge(rules: &Value) -> Firewall {
    let items: Vec<&Value> = rules["nftables"].as_array().into_iter().flatten().collect();
    let mut result = Firewall::Open;
    for chain in items.iter().map(|item| &item["chain"]) {
        if chain["hook"] != "input" || chain["type"] != "filter" {
            continue;
        }
        let name = |key: &str| chain[key].as_str().unwrap_or_default().to_owned();
        let (family, table) = (name("family"), name("table"));
        if !["ip", "ip6", "inet"].contains(&family.as_str()) {
            continue;
        }
        let rules = Rules {
            items: &items,
            family: &family,
            table: &table,
        };
        let named = rules.verdict_of_port(&name("name"));
        if named == Some(Verdict::Accept) {
            result = Firewall::Accepts;
        } else if named == Some(Verdict::Drop)
            || chain["policy"] == "drop"
            || rules.drops_the_rest(&name("name"))
        {
            return Firewall::Closed {
                chain: name("name"),
                family,
                table,
            };
        }
    }
    result
}

/// The rules of one table.
struct Rules<'a> {
    items: &'a [&'a Value],
    family: &'a str,
    table: &'a str,
}

impl Rules<'_> {
    /// The rules that a packet may meet that enters this chain: its own, and those of the chains
    /// that they go to.
    fn reachable(&self, chain: &str) -> Vec<&Value> {
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        let mut wanted = vec![chain.to_owned()];
        while let Some(name) = wanted.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for rule in self.items.iter().map(|item| &item["rule"]) {
                if rule["family"] != self.family
                    || rule["table"] != self.table
                    || rule["chain"] != name.as_str()
                {
                    continue;
                }
                found.push(rule);
                for statement in statements(rule) {
                    let target = [&statement["jump"]["target"], &statement["goto"]["target"]];
                    wanted.extend(
                        target
                            .iter()
                            .filter_map(|name| name.as_str())
                            .map(String::from),
                    );
                }
            }
        }
        found
    }

    /// The verdict of a rule that names the port.
    fn verdict_of_port(&self, chain: &str) -> Option<Verdict> {
        let rules = self.reachable(chain);
        rules
            .into_iter()
            .filter(|rule| names_port(rule))
            .find_map(verdict)
    }

    /// Whether a rule drops packets whatever they are.
    fn drops_the_rest(&self, chain: &str) -> bool {
        let matches_all = |rule: &&Value| statements(rule).all(|part| part["match"].is_null());
        let rules = self.reachable(chain);
        rules.into_iter().filter(matches_all).find_map(verdict) == Some(Verdict::Drop)
    }
}

fn statements(rule: &Value) -> impl Iterator<Item = &Value> {
    rule["expr"].as_array().into_iter().flatten()
}

fn verdict(rule: &Value) -> Option<Verdict> {
    statements(rule).find_map(|statement| {
        let statement = statement.as_object()?;
        if statement.contains_key("accept") {
            Some(Verdict::Accept)
        } else if statement.contains_key("drop") || statement.contains_key("reject") {
            Some(Verdict::Drop)
        } else {
            None
        }
    })
}

/// Whether a rule is about the port, by its number.
fn names_port(rule: &Value) -> bool {
    statements(rule)
        .map(|statement| &statement["match"])
        .any(|part| {
            let payload = &part["left"]["payload"];
            let is_udp = ["udp", "th"]
                .iter()
                .any(|protocol| payload["protocol"] == *protocol);
            is_udp && payload["field"] == "dport" && part["op"] == "==" && has_port(&part["right"])
        })
}

/// Whether a value of a rule has the port: a number, a range, or a set of them.
fn has_port(value: &Value) -> bool {
    let within = |value: &Value| match value["range"].as_array().map(Vec::as_slice) {
        Some([from, to]) => {
            from.as_u64().is_some_and(|from| from <= PORT)
                && to.as_u64().is_some_and(|to| PORT <= to)
        }
        _ => value.as_u64() == Some(PORT),
    };
    match value["set"].as_array() {
        Some(members) => members.iter().any(within),
        None => within(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chain(policy: &str) -> Value {
        json!({"chain": {"family": "inet", "table": "f", "name": "in", "type": "filter",
            "hook": "input", "policy": policy}})
    }
    fn rule(chain: &str, expr: Value) -> Value {
        json!({"rule": {"family": "inet", "table": "f", "chain": chain, "expr": expr}})
    }
    fn port(right: Value) -> Value {
        json!({"match": {"op": "==", "right": right,
            "left": {"payload": {"protocol": "udp", "field": "dport"}}}})
    }
    fn judged(items: &[Value]) -> Firewall {
        judge(&json!({ "nftables": items }))
    }
    fn closed() -> Firewall {
        let [family, table, chain] = ["inet", "f", "in"].map(String::from);
        Firewall::Closed {
            family,
            table,
            chain,
        }
    }

    #[test]
    fn without_rules_it_is_open() {
        assert_eq!(judged(&[]), Firewall::Open);
        assert_eq!(judged(&[chain("accept")]), Firewall::Open);
    }

    #[test]
    fn a_policy_or_a_last_rule_drops() {
        assert_eq!(judged(&[chain("drop")]), closed());
        let last = rule("in", json!([{"counter": {}}, {"reject": {}}]));
        assert_eq!(judged(&[chain("accept"), last]), closed());
        let of_others = rule("in", json!([port(json!(22)), {"drop": null}]));
        assert_eq!(judged(&[chain("accept"), of_others]), Firewall::Open);
    }

    #[test]
    fn a_rule_accepts_the_port() {
        let rights = [
            json!(4791),
            json!({"set": [22, 4791]}),
            json!({"range": [4000, 5000]}),
            json!({"set": [{"range": [4791, 4791]}]}),
        ];
        for right in rights {
            let accepts = rule("in", json!([port(right), {"accept": null}]));
            assert_eq!(judged(&[chain("drop"), accepts]), Firewall::Accepts);
        }
        let other = rule("in", json!([port(json!(4790)), {"accept": null}]));
        assert_eq!(judged(&[chain("drop"), other]), closed());
    }

    #[test]
    fn chains_are_followed() {
        let jump = rule("in", json!([{"jump": {"target": "zone"}}]));
        let accepts = rule("zone", json!([port(json!(4791)), {"accept": null}]));
        let back = rule("zone", json!([{"jump": {"target": "in"}}]));
        assert_eq!(
            judged(&[chain("drop"), jump, accepts, back]),
            Firewall::Accepts
        );
    }

    #[test]
    fn a_rule_drops_the_port() {
        let drops = rule("in", json!([port(json!(4791)), {"drop": null}]));
        assert_eq!(judged(&[chain("accept"), drops]), closed());
    }
}
