# SPDX-License-Identifier: GPL-2.0
"""What the report makes of the figures of the boots."""

import dataclasses
import unittest

import report
import scenarios

NARROW = scenarios.Scenario(
    "narrow-send", "narrow", "send", flows=2, share=0.9, dropped=0.02, jain=0.95
)
PAYLOAD, PACKET = scenarios.RDMA_PACKET


def row(goodput, passed=900, dropped=100, **more):
    """A boot's figures; goodput in Mb/s for each flow."""
    return {
        "peer": "oxe",
        "goodput": [each * 1e6 for each in goodput],
        "passed": passed,
        "dropped": dropped,
        "seconds": 1.0,
        "queue": 1000,
        "again": 3,
        "busy": 0.5,
        "latency": None,
        "wrong": 0,
        "failed": [],
        **more,
    }


def line(*rows, scenario=NARROW, wholes=None):
    return report.Line(scenario, "oxe", rows, wholes or [None] * len(rows))


class Figures(unittest.TestCase):
    def test_share_of_what_the_bottleneck_carries(self):
        full = 200 * PAYLOAD / PACKET
        found = report.figures(NARROW, row([full / 4, full / 4]), None)
        self.assertAlmostEqual(found["share"], 0.5)
        self.assertAlmostEqual(found["dropped"], 0.1)

    def test_share_of_another_row(self):
        whole = row([50, 50])
        scenario = dataclasses.replace(NARROW, whole="wide-send")
        found = report.figures(scenario, row([40, 40]), whole)
        self.assertAlmostEqual(found["share"], 0.8)

    def test_without_that_row_there_is_no_share(self):
        scenario = dataclasses.replace(NARROW, whole="wide-send")
        self.assertIsNone(report.figures(scenario, row([40, 40]), None)["share"])

    def test_two_flows_of_which_one_has_nothing(self):
        found = report.figures(NARROW, row([80, 0]), None)
        self.assertAlmostEqual(found["jain"], 0.5)
        self.assertEqual(found["poorest"], 0)

    def test_payload_in_vain(self):
        # 1,000 packets were sent; half of their payload arrived.
        megabits = 500 * PAYLOAD * 8 / 1e6
        found = report.figures(NARROW, row([megabits / 2, megabits / 2]), None)
        self.assertAlmostEqual(found["vain"], 0.5)

    def test_part_beside_tcp(self):
        scenario = dataclasses.replace(NARROW, flows=1, tcp=1)
        found = report.figures(scenario, row([30, 90]), None)
        self.assertAlmostEqual(found["beside"], 0.25)


    def test_latency_only_where_messages_end_in_time(self):
        found = report.figures(NARROW, row([80, 80], latency=0.2), None)
        ideal = 2 * 16 * 65536 * 8 / NARROW.ceiling()
        self.assertAlmostEqual(found["latency"], 0.2 / ideal)
        crowd = dataclasses.replace(NARROW, flows=100)
        self.assertIsNone(report.figures(crowd, row([80, 80], latency=0.2), None)["latency"])


class Verdicts(unittest.TestCase):
    def test_the_median_counts(self):
        full = 200 * PAYLOAD / PACKET
        good, bad = row([full / 2] * 2, 999, 1), row([full / 8] * 2, 500, 500)
        self.assertEqual(line(good, bad, good).missed, [])
        self.assertEqual(line(bad, bad, good).missed, ["share", "dropped"])

    def test_the_mean_queue(self):
        short = dataclasses.replace(NARROW, share=None, dropped=None, jain=None, waiting=5)
        for packets, missed in ((5, []), (6, ["waiting"])):
            found = line(row([50, 50], queue=packets * PACKET), scenario=short)
            self.assertEqual(found.missed, missed)

    def test_a_mark_without_a_figure_is_missed(self):
        scenario = dataclasses.replace(NARROW, whole="wide-send", dropped=None, jain=None)
        self.assertEqual(line(row([40, 40]), scenario=scenario).missed, ["share"])

    def test_what_fails_the_lab(self):
        self.assertFalse(line(row([1, 1])).broken())
        self.assertTrue(line(row([1, 1], wrong=1)).broken())
        self.assertTrue(line(row([1, 1], failed=["RETRY_EXC_ERR"])).broken())
        self.assertTrue(line({"error": "it died"}).broken())
        other = report.Line(NARROW, "rxe", [row([1, 1], failed=["RETRY_EXC_ERR"])], [None])
        self.assertFalse(other.broken())

    def test_a_row_that_a_boot_lacks_is_missing(self):
        (wanted,) = scenarios.selected("bottleneck-read")
        one = {"scenario": wanted.name, **row([1] * 8)}
        lines, missing = report.collect([[one], []], [wanted], ["oxe"])
        self.assertEqual((lines, missing), ([], ["bottleneck-read, oxe"]))


if __name__ == "__main__":
    unittest.main()
