"""Cases of a corpus: our own readers answer them, they are reproducible, and broken ones are broken in one field."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from unwindkit.conform.judge import differences
from unwindkit.conform.own_reader import own_answers
from unwindkit.conform.reader import Reply
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.corpus.case import Case
from unwindkit.corpus.choices import Replayed, Seeded
from unwindkit.corpus.formats import FORMATS, Options, check_names, make_case
from unwindkit.corpus.write import write_corpus
from unwindkit.schemas.section import BuildError

CASES = 120
# Faults that a reader need not see.
NOT_SEEN_BY_ALL = ("num-fres", "order", "range", "minimum-length")
# Of the bytes and answers of every 7th of the first 400 cases of seed 0, broken ones among them: equal on every
# machine and with every version of Python.
DIGESTS = {
    "sframe-v1": "2557fedf14f5b498",
    "sframe-v2": "a5540da1a278e14b",
    "sframe-v3": "134cb241482d66c1",
    "eh-frame": "e41835707116e682",
    "debug-frame": "42be45475adcfef8",
    "debug-line-2": "f358fa7d17779188",
    "debug-line-3": "296fa96cc03532b2",
    "debug-line-4": "3f94071d3b2bd5d4",
    "debug-line-5": "9db29a0755661249",
    "eh-frame-hdr": "8ce5f145245a6f8c",
    "breakpad": "288a4812746d0856",
}


def digest(name: str) -> str:
    found = hashlib.sha256()
    for number in range(0, 400, 7):
        case = make_case(FORMATS[name], number, Options())
        found.update(case.data + json.dumps(case.to_json("", "")).encode())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("name", FORMATS)
def test_our_readers_answer_as_the_corpus_does(name: str) -> None:
    asked = 0
    for number in range(CASES):
        case = make_case(FORMATS[name], number, Options(seed=1))
        pcs = tuple(case.answers)
        reply = Reply(tuple(own_answers(case, pcs)))
        assert [str(one) for one in differences(case, pcs, reply)] == [], case.data.hex()
        asked += case.fault is None and len(pcs)
    assert asked > 5 * CASES


@pytest.mark.parametrize("name", FORMATS)
def test_a_seed_gives_the_same_cases_everywhere(name: str) -> None:
    assert digest(name) == DIGESTS[name]


def test_every_format_has_broken_cases_of_every_fault_with_one_field_changed() -> None:
    for form in FORMATS.values():
        faults = set()
        for number in range(1200):
            case = make_case(form, number, Options())
            if case.fault is None:
                continue
            faults.add(case.fault.name)
            valid = make_case(form, number, Options(valid_only=True))
            fault = case.fault
            changed = {place for place, pair in enumerate(zip(valid.data, case.data, strict=True)) if len({*pair}) > 1}
            assert changed
            assert changed <= set(range(fault.offset, fault.offset + fault.size))
            if fault.name not in NOT_SEEN_BY_ALL:
                assert ("error",) in case.answers.values()
            if faults == set(form.faults):
                break
        # Version 3 has FREs without offsets.
        assert set(form.faults) - faults <= ({"offset-count"} if form.name == "sframe-v3" else set())


def test_names_that_are_left_out_do_not_occur() -> None:
    without = frozenset({"auxiliary-header", "gaps", "pcmask", "version", "magic"})
    for number in range(100):
        case = make_case(FORMATS["sframe-v2"], number, Options(without=without))
        assert not case.features & without
        assert case.fault is None or case.fault.name not in without


@pytest.mark.parametrize("name", FORMATS)
def test_architectures_that_are_left_out_do_not_occur(name: str) -> None:
    left_out = frozenset(ARCHITECTURES.keys() - {"aarch64", "x86_64"})
    found = {make_case(FORMATS[name], number, Options(without=left_out)).architecture.name for number in range(4)}
    assert found == {"aarch64", "x86_64"}
    with pytest.raises(BuildError, match=f"leaves no architecture of {name}"):
        check_names([name], ARCHITECTURES.keys())


def test_functions_that_share_fres_are_broken_together() -> None:
    """At each PC of all of them, the broken field of an FRE decides."""
    seen = 0
    for number in range(1500):
        options = Options(
            without=frozenset({"pcmask", "unsorted"} | set(FORMATS["sframe-v2"].faults) - {"offset-size"})
        )
        case = make_case(FORMATS["sframe-v2"], number, options)
        if case.fault is None or not {"shared-fres"} <= case.features:
            continue
        places = [one.value for one in case.layout if one.name.endswith(".func_start_fre_off")]
        broken = int(case.fault.field[len("fde[")])
        first = case.functions[broken]["rows"][int(case.fault.field.split(".fre[")[1][0])]["offset"]
        for place, one in zip(places, case.functions, strict=True):
            if place == places[broken]:
                assert case.answers[one["start"] + first] == ("error",)
                seen += one["start"] != case.functions[broken]["start"]
    assert seen > 3


def test_a_case_is_drawn_again_from_its_numbers() -> None:
    form, options = FORMATS["eh-frame"], Options()
    draw = Seeded("0/eh-frame/5")
    case = make_case(form, 5, options, draw)
    assert make_case(form, 5, options, Replayed(draw.numbers)) == case
    smallest: Case = make_case(form, 5, options, Replayed([]))
    assert smallest.functions == ()


def test_the_files_of_a_corpus(tmp_path: Path) -> None:
    assert write_corpus(tmp_path, ["sframe-v3", "debug-frame"], 3) == 6
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["debug-frame-000000.elf", "debug-frame-000000.json"]
    assert len(names) == 12
    case = json.loads((tmp_path / "sframe-v3-000001.json").read_text())
    made = make_case(FORMATS["sframe-v3"], 1, Options())
    assert (case["schema"], case["file"], case["section"]) == (1, "sframe-v3-000001.elf", ".sframe")
    assert case["answers"] == json.loads(json.dumps(made.to_json("", "")["answers"]))
    assert made.data in (tmp_path / case["file"]).read_bytes()


def test_a_raw_corpus_refers_to_no_other_section(tmp_path: Path) -> None:
    write_corpus(tmp_path, ["debug-line-5"], 60, Options(valid_only=True), raw=True)
    cases = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert all("line-strp" not in case["features"] for case in cases)
    whole = [make_case(FORMATS["debug-line-5"], number, Options(valid_only=True)) for number in range(60)]
    assert any(case.other_sections for case in whole)
    assert all(bool(case.other_sections) == ("line-strp" in case.features) for case in whole)


def test_the_command_needs_no_hypothesis(tmp_path: Path) -> None:
    code = "import sys; sys.modules['hypothesis'] = None; from unwindkit.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        code,
        "corpus",
        "-o",
        str(tmp_path),
        "--count",
        "2",
        "--raw",
        "--format",
        "eh-frame",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == f"{tmp_path}: 2 cases, 1 format\n"
    assert (tmp_path / "eh-frame-000001.bin").read_bytes() == make_case(FORMATS["eh-frame"], 1, Options()).data


def test_unknown_names_are_refused() -> None:
    with pytest.raises(BuildError, match="'elf' is not one of sframe-v1"):
        write_corpus("unused", ["elf"], 1)
