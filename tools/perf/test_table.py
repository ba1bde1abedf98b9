# SPDX-License-Identifier: GPL-2.0
"""Tests of what runs on the host: the comparison with the table, counts, names, documents.

Usage: python3 -m unittest discover -s tools/perf
"""

import contextlib
import doctest
import io
import json
import os
import tempfile
import unittest

import compare
import counts
import document
import rows
import table


def entry(cost, spread=0.1, unit="Gb/s"):
    return {"unit": unit, "rxe": 1, "oxe": 2, "other": None, "cost": cost, "spread": spread}


def run(**costs):
    return {name: {"unit": "Gb/s", "counts": {"oxe": cost}} for name, cost in costs.items()}


def kinds(entries, *runs, pattern=""):
    return {v.name: v.kind for v in compare.compare(entries, runs, pattern)}


def shown(verdicts):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = compare.show(verdicts)
    return status, out.getvalue()


class Comparison(unittest.TestCase):
    def test_more_than_a_percent_is_worse_or_better(self):
        entries = {name: entry(1000) for name in "abcd"}
        found = kinds(entries, run(a=1011, b=1009, c=991, d=989))
        self.assertEqual(found, {"a": "worse", "b": "same", "c": "same", "d": "better"})

    def test_a_larger_spread_is_the_tolerance(self):
        entries = {"a": entry(1000, 3.0), "b": entry(1000, 3.0)}
        self.assertEqual(kinds(entries, run(a=1029, b=1031)), {"a": "same", "b": "worse"})

    def test_rows_without_a_counterpart_are_named(self):
        found = kinds({"a": entry(1000)}, run(b=5))
        self.assertEqual(found, {"a": "not measured", "b": "no entry"})
        for name, words in (("a", "not measured: a"), ("b", "not in the table: b")):
            verdict = [v for v in compare.compare({"a": entry(1)}, [run(b=5)]) if v.name == name]
            status, text = shown(verdict)
            self.assertTrue(status)
            self.assertIn(words, text)

    def test_a_row_that_failed_is_not_measured(self):
        self.assertEqual(kinds({"a": entry(1000)}, run(a=None)), {"a": "not measured"})

    def test_the_pattern_restricts_both_sides(self):
        entries = {"wire a": entry(1), "loop a": entry(1)}
        found = kinds(entries, {"wire a": run(x=1)["x"]}, pattern="wire")
        self.assertEqual(found, {"wire a": "same"})

    def test_the_median_of_the_boots_counts(self):
        runs = [run(a=1100), run(a=1000), run(a=1001)]
        self.assertEqual(kinds({"a": entry(1000)}, *runs), {"a": "same"})
        self.assertEqual(kinds({"a": entry(1000)}, *runs[:1]), {"a": "worse"})

    def test_memory_is_compared_by_its_figure(self):
        now = {"a": {"unit": "kB", "oxe": 22.0, "counts": {}}}
        self.assertEqual(kinds({"a": entry(21.0, unit="kB")}, now), {"a": "worse"})

    def test_the_status_says_whether_it_is_well(self):
        entries = {"a": entry(1000)}
        for cost, well in ((1000, True), (900, True), (1020, False)):
            status, text = shown(compare.compare(entries, [run(a=cost)]))
            self.assertEqual(bool(status), not well, text)
        self.assertIn("worse   a ", text)
        self.assertIn("+2.0 %", text)
        self.assertIn("1 worse, 0 better, 0 not measured, 0 no entry, 0 same", text)


class Table(unittest.TestCase):
    def boots(self, *costs):
        """Directories of boots as the machine leaves them: one row, of ten messages."""
        for cost in costs:
            directory = tempfile.TemporaryDirectory()
            self.addCleanup(directory.cleanup)
            row = {"unit": "Gb/s", "rxe": 1.0, "oxe": 2.0, "other": 3.0}
            row["runs"] = {"oxe": {"messages": 10, "series": 7, "whole": False}}
            with open(f"{directory.name}/bench.json", "w", encoding="ascii") as file:
                json.dump({"loop, send 64 B": row}, file)
            with open(f"{directory.name}/counts.txt", "w", encoding="ascii") as file:
                file.write(f"series 7 1\ntick 0 50\ntick 10 {50 + 10 * cost}\n")
            yield directory.name

    def test_costs_of_several_boots(self):
        runs = [table.load_run(directory) for directory in self.boots(100, 104, 101)]
        row = table.row_of(runs, "loop, send 64 B")
        self.assertEqual((row["cost"], row["spread"], row["other"]), (101, 4.0, 3.0))

    def test_a_row_that_failed_is_no_entry(self):
        runs = [table.load_run(directory) for directory in self.boots(100, 101)]
        runs[1]["loop, send 64 B"]["counts"]["oxe"] = None
        with self.assertRaisesRegex(ValueError, "'loop, send 64 B' was not measured"):
            table.row_of(runs, "loop, send 64 B")


class Names(unittest.TestCase):
    def test_no_match_names_the_nearest(self):
        with self.assertRaisesRegex(LookupError, "The nearest: 'loop, NFS, 1 MiB read'"):
            rows.matching("NFS, 1 MB read")

    def test_names_are_unique(self):
        self.assertEqual(len(rows.names()), len(set(rows.names())))

    def test_exact_names(self):
        wanted = ["loop, write 4 KiB, 1 QP", "wire, atomic latency"]
        self.assertEqual(sorted(rows.matching(rows.exactly(wanted))), wanted)
        self.assertEqual(rows.exactly([]), "")

    def test_the_documents_show_the_table(self):
        self.assertEqual(list(table.load()["rows"]), rows.names())
        self.assertEqual(list(document.differences(table.load()["rows"], check=True)), [])


def load_tests(_loader, tests, _pattern):
    for module in (counts, document, rows, table):
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
