"""Tests of the Python module against the tacho command on the PATH: python3 -m unittest discover python/tests"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import tacho_bench

SIM = ["serve", "--sim", "--num-prompts", "20", "--random-input-len", "16", "--random-output-len", "4"]


class Run(unittest.TestCase):
    def test_returns_the_result(self):
        result = tacho_bench.run(SIM)
        self.assertEqual(result["completed"], 20)
        self.assertIn("client", result["tacho"])

    def test_a_mistake_raises_with_its_line(self):
        with self.assertRaises(tacho_bench.TachoError) as raised:
            tacho_bench.run(["serve", "--sim", "--num-prompts", "many"])
        self.assertEqual(raised.exception.returncode, 2)
        self.assertEqual(str(raised.exception), "tacho serve: error: argument --num-prompts: invalid int value: 'many'")
        self.assertIsNone(raised.exception.result)

    def test_a_failed_limit_keeps_the_result(self):
        limit = [*SIM, "--fail-if", "p99_ttft_ms>0.000001"]
        with self.assertRaises(tacho_bench.TachoError) as raised:
            tacho_bench.run(limit)
        self.assertEqual(raised.exception.returncode, 3)
        self.assertIn("p99_ttft_ms", str(raised.exception))
        self.assertEqual(raised.exception.result["completed"], 20)
        self.assertEqual(tacho_bench.run(limit, check=False)["completed"], 20)

    def test_several_runs_are_a_list(self):
        results = tacho_bench.run([*SIM, "--num-runs", "2", "--vary-seed"])
        self.assertEqual([result["completed"] for result in results], [20, 20])

    def test_the_first_example_of_the_page_runs(self):
        with open(os.path.join(os.path.dirname(__file__), "../../docs/reference/python.md"), encoding="utf-8") as page:
            example = page.read().split("```python\n")[1].split("```")[0].split("\nframe = ")[0]
        exec(example, {})

    def test_the_module_is_the_command(self):
        ended = subprocess.run([sys.executable, "-m", "tacho_bench", "--version"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(ended.returncode, 0)
        self.assertTrue(ended.stdout.startswith("tacho "))


class Dataset(unittest.TestCase):
    def sent(self, rows, *flags):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "w.jsonl")
            result = tacho_bench.run(["serve", "--sim", "--ignore-eos", "--save-workload", path, *flags], dataset=rows)
            with open(path, encoding="utf-8") as file:
                header, *requests = [json.loads(line) for line in file]
            self.assertIn("tacho_workload", header)
            return result, requests

    def test_rows_are_sent_in_their_order(self):
        rows = [{"prompt": f"Größe {n}", "output_len": n + 1, "labels": {"odd": str(n % 2)}} for n in range(9)]
        result, sent = self.sent(rows)
        self.assertEqual([row["prompt"] for row in sent], [row["prompt"] for row in rows])
        self.assertEqual(result["total_output_tokens"], sum(range(1, 10)))
        self.assertEqual(result["tacho"]["groups"]["odd"]["1"]["completed"], 4)

    def test_an_endless_generator_is_read_as_far_as_needed(self):
        taken = []

        def rows():
            while True:
                taken.append(None)
                yield {"prompt": "x" * 1000, "output_len": 1}

        result, _ = self.sent(rows(), "--num-prompts", "50")
        self.assertEqual(result["completed"], 50)
        self.assertLess(len(taken), 2000)

    def test_the_number_of_requests_may_be_set_anywhere(self):
        rows = [{"prompt": str(n), "output_len": 1} for n in range(9)]
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "c.yaml")
            with open(path, "w") as file:
                file.write("num-prompts: 4\n")
            for flags, environment in (
                (["--num_prompts", "4"], {}),
                (["--num-promp=4"], {}),
                ([], {"TACHO_NUM_PROMPTS": "4"}),
                (["--config", path], {}),
            ):
                env = {**os.environ, **environment}
                result = tacho_bench.run(["serve", "--sim", *flags], dataset=rows, env=env)
                self.assertEqual(result["completed"], 4, flags)

    def test_an_exception_of_the_rows_is_raised(self):
        def rows():
            yield {"prompt": "a"}
            raise KeyError("no more")

        with self.assertRaises(KeyError):
            tacho_bench.run(["serve", "--sim", "--num-prompts", "5"], dataset=rows())

    def test_a_row_that_is_not_json_is_raised(self):
        with self.assertRaises(TypeError):
            tacho_bench.run(["serve", "--sim"], dataset=[{"prompt": object()}])

    def test_wrong_rows_are_named(self):
        for row, part in [({"prompt": 5}, 'line 1: "prompt" must be a text'), (["x"], "line 1: must be a JSON object")]:
            with self.assertRaises(tacho_bench.TachoError) as raised:
                tacho_bench.run(["serve", "--sim"], dataset=[row])
            self.assertIn(part, str(raised.exception))
        with self.assertRaises(tacho_bench.TachoError) as raised:
            tacho_bench.run(["serve", "--sim"], dataset=[])
        self.assertIn("printed no rows", str(raised.exception))


class Requests(unittest.TestCase):
    def test_rows_of_a_log(self):
        with tempfile.TemporaryDirectory() as directory:
            log = os.path.join(directory, "log")
            tacho_bench.run([*SIM, "--log", log])
            rows = tacho_bench.requests(log, "dicts")
            self.assertEqual(len(rows), 20)
            self.assertTrue(all(row["ttft_ms"] > 0 for row in rows))
            try:
                import pyarrow  # noqa: F401
            except ImportError:
                return
            self.assertEqual(tacho_bench.requests(log, "arrow").num_rows, 20)

    def test_an_unknown_format(self):
        with self.assertRaises(ValueError):
            tacho_bench.requests("log", "excel")

    def test_a_missing_log(self):
        with self.assertRaises(tacho_bench.TachoError):
            tacho_bench.requests("/nonexistent", "dicts")


if __name__ == "__main__":
    unittest.main()
