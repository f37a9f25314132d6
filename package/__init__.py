"""unwindkit: read the unwind information of binaries into one table, and write it in any format.

Strategy: _HOMES lists the public names. Each is imported on first use, so that a program loads only what it needs. The
imports below it are for type checkers; test_structure.py checks that the two lists agree.
"""

from __future__ import annotations

# As in typing, which takes longer to import than this package.
TYPE_CHECKING = False

_HOMES = {
    name: module
    for module, names in {
        "converters.arch.table": "ARCHITECTURES Architecture",
        "converters.assembler.write": "function_directives to_directives",
        "converters.breakpad.function_read": "from_function_records",
        "converters.breakpad.function_text": "to_function_records",
        "converters.breakpad.line_records": "from_line_records to_line_records",
        "converters.breakpad.postfix.evaluate": "evaluate_postfix run_postfix",
        "converters.breakpad.source_paths": "PathMap prefix_map repository_map",
        "converters.breakpad.stack_cfi.evaluate": (
            "CallerRegisters RuleIndex RuleRange RuleRow"
            " caller_registers evaluate_rules rule_index rule_ranges rule_rows"
        ),
        "converters.breakpad.stack_cfi.read": "from_stack_cfi",
        "converters.breakpad.stack_cfi.write": "to_stack_cfi",
        "converters.breakpad.stack_win": "caller_by_stack_win parameter_size_at stack_win_at",
        "converters.breakpad.stack_win_read": "from_stack_win",
        "converters.cfi.edit.edit": "EditedCfi edit_cfi",
        "converters.cfi.edit.merge": "MergedCfi merge_cfi",
        "converters.cfi.eh_frame_hdr": "HdrFindings check_eh_frame_hdr",
        "converters.cfi.read": "from_debug_frame from_eh_frame",
        "converters.cfi.write": "to_debug_frame to_eh_frame to_eh_frame_hdr",
        "converters.debug_info.table": "FunctionTable",
        "converters.dwarf": "expressions",
        "converters.dwarf.units": "DebugUnits UnitAttributes",
        "converters.elf.debug_sections": "read_units",
        "converters.elf.debug_files": "DebugFiles",
        "converters.elf.image": "ElfImage ElfSection open_elf",
        "converters.elf.symbols": "addresses_of_names",
        "converters.files.directives": "from_directives",
        "converters.files.find": "FoundRow find_in_file",
        "converters.files.functions": "SourceMap read_functions read_source_map",
        "converters.files.lint": "LintFindings LintedSection",
        "converters.files.read_elf": "read_elf",
        "converters.files.unit_macros": "Macro UnitMacros read_unit_macros",
        "converters.files.symbol_names": "SourceFrame",
        "converters.files.symbolize": "SourceFrames symbolize",
        "converters.files.core_modules": "Places",
        "converters.files.walk_core": "CoreFrame CoreTraces ThreadTrace walk_core",
        "converters.findings": "Findings",
        "converters.line.lookup": "LineAt LinesAt find_lines",
        "converters.line.paths": "Paths paths_of",
        "converters.line.ranges": "LineRanges",
        "converters.line.read": "from_debug_line read_lines",
        "converters.line.table": "LineTable same_lines",
        "converters.line.write": "to_debug_line",
        "converters.lookup_tables.aranges": (
            "AddressRanges address_ranges_of_units check_address_ranges read_address_ranges write_address_ranges"
        ),
        "converters.lookup_tables.from_lines": "to_debug_aranges",
        "converters.lookup_tables.pubnames": "Names check_pubnames read_pubnames write_pubnames",
        "converters.lookup_tables.search": "FoundNames NameAt RangesAt find_address_ranges find_names",
        "converters.macro.check": "check_macros",
        "converters.macro.flatten": "FlatMacros flatten_macros",
        "converters.macro.strings": "MacroSources macro_sources",
        "converters.macro.table": "Macros read_macros write_macros",
        "converters.refusals": "Reason Refusal Refusals RefusedCount RefusedRecords",
        "converters.rules": "CfaKind RaState RuleKind",
        "converters.sframe.lookup": "FresAt find_fres",
        "converters.sframe.project": "project_sframe",
        "converters.sframe.read": "from_sframe",
        "converters.sframe.write": "Compact to_sframe",
        "converters.strings": "Strings",
        "converters.table.by_pc": "RulesByPc by_pc",
        "converters.table.merge": "SharedRange SharedRanges",
        "converters.table.lookup": "RowsAt find_rows",
        "converters.table.model": "CfaRule Function FunctionFlag RegisterRule Row UnwindTable table_of",
        "converters.limits": "raised_limits",
        "converters.walk.backtrace": "Backtrace WalkedFrame walk_frames",
        "converters.walk.caller": "Caller Frame WalkEnd caller_frame",
        "batches.mapped": "write_breakpad_many write_sframe_many",
        "batches.run": "export_tree write_sframe_tree write_symbol_store",
        "batches.source_files": "Failure",
        "explanation.explain": "explain",
        "explanation.model": "CodeLine ExplainedField ExplainedRecord Explanation",
        "jobs.breakpad": "BreakpadReport store_breakpad write_breakpad",
        "jobs.check": "CheckReport CheckedPair RangeCount RowDifference check",
        "jobs.convert": "ConvertReport convert",
        "jobs.dump": "dump_cfi dump_json dump_lines dump_sections dump_sframe",
        "jobs.edit": "EditReport edit_eh_frame",
        "jobs.export": "ExportReport export_file",
        "jobs.eh_frame_files": "EhFrameReport write_eh_frame",
        "jobs.info": "FileInfo SectionInfo info",
        "jobs.line_conversion": "LineReport",
        "jobs.merge": "MergeReport merge_sframe",
        "jobs.report": "SframeFigures",
        "jobs.section_dumps": "JsonSection",
        "jobs.sframe_files": "remove_sframe write_sframe write_sframe_section",
        "jobs.sframe_report": "SframeReport",
        "jobs.verify": "UncoveredCode VerifiedFile VerifiedSource VerifyReport WrongRow verify",
        "jobs.walk_process": "walk_process",
        "pages.report": "report",
        "schemas.section": "BuildError FormatError ParseError Section",
        "writers.elf.add": "Writer",
        "writers.elf.remove": "RemoveReport",
    }.items()
    for name in names.split()
}

__all__ = list(_HOMES)
__version__ = "0.1.0"

if TYPE_CHECKING:
    from .batches.mapped import write_breakpad_many as write_breakpad_many
    from .batches.mapped import write_sframe_many as write_sframe_many
    from .batches.run import export_tree as export_tree
    from .batches.run import write_sframe_tree as write_sframe_tree
    from .batches.run import write_symbol_store as write_symbol_store
    from .batches.source_files import Failure as Failure
    from .converters.arch.table import ARCHITECTURES as ARCHITECTURES
    from .converters.arch.table import Architecture as Architecture
    from .converters.assembler.write import function_directives as function_directives
    from .converters.assembler.write import to_directives as to_directives
    from .converters.breakpad.function_read import from_function_records as from_function_records
    from .converters.breakpad.function_text import to_function_records as to_function_records
    from .converters.breakpad.line_records import from_line_records as from_line_records
    from .converters.breakpad.line_records import to_line_records as to_line_records
    from .converters.breakpad.postfix.evaluate import evaluate_postfix as evaluate_postfix
    from .converters.breakpad.postfix.evaluate import run_postfix as run_postfix
    from .converters.breakpad.source_paths import PathMap as PathMap
    from .converters.breakpad.source_paths import prefix_map as prefix_map
    from .converters.breakpad.source_paths import repository_map as repository_map
    from .converters.breakpad.stack_cfi.evaluate import CallerRegisters as CallerRegisters
    from .converters.breakpad.stack_cfi.evaluate import RuleIndex as RuleIndex
    from .converters.breakpad.stack_cfi.evaluate import RuleRange as RuleRange
    from .converters.breakpad.stack_cfi.evaluate import RuleRow as RuleRow
    from .converters.breakpad.stack_cfi.evaluate import caller_registers as caller_registers
    from .converters.breakpad.stack_cfi.evaluate import evaluate_rules as evaluate_rules
    from .converters.breakpad.stack_cfi.evaluate import rule_index as rule_index
    from .converters.breakpad.stack_cfi.evaluate import rule_ranges as rule_ranges
    from .converters.breakpad.stack_cfi.evaluate import rule_rows as rule_rows
    from .converters.breakpad.stack_cfi.read import from_stack_cfi as from_stack_cfi
    from .converters.breakpad.stack_cfi.write import to_stack_cfi as to_stack_cfi
    from .converters.breakpad.stack_win import caller_by_stack_win as caller_by_stack_win
    from .converters.breakpad.stack_win import parameter_size_at as parameter_size_at
    from .converters.breakpad.stack_win import stack_win_at as stack_win_at
    from .converters.breakpad.stack_win_read import from_stack_win as from_stack_win
    from .converters.cfi.edit.edit import EditedCfi as EditedCfi
    from .converters.cfi.edit.edit import edit_cfi as edit_cfi
    from .converters.cfi.edit.merge import MergedCfi as MergedCfi
    from .converters.cfi.edit.merge import merge_cfi as merge_cfi
    from .converters.cfi.eh_frame_hdr import HdrFindings as HdrFindings
    from .converters.cfi.eh_frame_hdr import check_eh_frame_hdr as check_eh_frame_hdr
    from .converters.cfi.read import from_debug_frame as from_debug_frame
    from .converters.cfi.read import from_eh_frame as from_eh_frame
    from .converters.cfi.write import to_debug_frame as to_debug_frame
    from .converters.cfi.write import to_eh_frame as to_eh_frame
    from .converters.cfi.write import to_eh_frame_hdr as to_eh_frame_hdr
    from .converters.debug_info.table import FunctionTable as FunctionTable
    from .converters.dwarf import expressions as expressions
    from .converters.dwarf.units import DebugUnits as DebugUnits
    from .converters.dwarf.units import UnitAttributes as UnitAttributes
    from .converters.elf.debug_files import DebugFiles as DebugFiles
    from .converters.elf.debug_sections import read_units as read_units
    from .converters.elf.image import ElfImage as ElfImage
    from .converters.elf.image import ElfSection as ElfSection
    from .converters.elf.image import open_elf as open_elf
    from .converters.elf.symbols import addresses_of_names as addresses_of_names
    from .converters.files.core_modules import Places as Places
    from .converters.files.directives import from_directives as from_directives
    from .converters.files.find import FoundRow as FoundRow
    from .converters.files.find import find_in_file as find_in_file
    from .converters.files.functions import SourceMap as SourceMap
    from .converters.files.functions import read_functions as read_functions
    from .converters.files.functions import read_source_map as read_source_map
    from .converters.files.lint import LintedSection as LintedSection
    from .converters.files.lint import LintFindings as LintFindings
    from .converters.files.read_elf import read_elf as read_elf
    from .converters.files.symbol_names import SourceFrame as SourceFrame
    from .converters.files.symbolize import SourceFrames as SourceFrames
    from .converters.files.symbolize import symbolize as symbolize
    from .converters.files.unit_macros import Macro as Macro
    from .converters.files.unit_macros import UnitMacros as UnitMacros
    from .converters.files.unit_macros import read_unit_macros as read_unit_macros
    from .converters.files.walk_core import CoreFrame as CoreFrame
    from .converters.files.walk_core import CoreTraces as CoreTraces
    from .converters.files.walk_core import ThreadTrace as ThreadTrace
    from .converters.files.walk_core import walk_core as walk_core
    from .converters.findings import Findings as Findings
    from .converters.limits import raised_limits as raised_limits
    from .converters.line.lookup import LineAt as LineAt
    from .converters.line.lookup import LinesAt as LinesAt
    from .converters.line.lookup import find_lines as find_lines
    from .converters.line.paths import Paths as Paths
    from .converters.line.paths import paths_of as paths_of
    from .converters.line.ranges import LineRanges as LineRanges
    from .converters.line.read import from_debug_line as from_debug_line
    from .converters.line.read import read_lines as read_lines
    from .converters.line.table import LineTable as LineTable
    from .converters.line.table import same_lines as same_lines
    from .converters.line.write import to_debug_line as to_debug_line
    from .converters.lookup_tables.aranges import AddressRanges as AddressRanges
    from .converters.lookup_tables.aranges import address_ranges_of_units as address_ranges_of_units
    from .converters.lookup_tables.aranges import check_address_ranges as check_address_ranges
    from .converters.lookup_tables.aranges import read_address_ranges as read_address_ranges
    from .converters.lookup_tables.aranges import write_address_ranges as write_address_ranges
    from .converters.lookup_tables.from_lines import to_debug_aranges as to_debug_aranges
    from .converters.lookup_tables.pubnames import Names as Names
    from .converters.lookup_tables.pubnames import check_pubnames as check_pubnames
    from .converters.lookup_tables.pubnames import read_pubnames as read_pubnames
    from .converters.lookup_tables.pubnames import write_pubnames as write_pubnames
    from .converters.lookup_tables.search import FoundNames as FoundNames
    from .converters.lookup_tables.search import NameAt as NameAt
    from .converters.lookup_tables.search import RangesAt as RangesAt
    from .converters.lookup_tables.search import find_address_ranges as find_address_ranges
    from .converters.lookup_tables.search import find_names as find_names
    from .converters.macro.check import check_macros as check_macros
    from .converters.macro.flatten import FlatMacros as FlatMacros
    from .converters.macro.flatten import flatten_macros as flatten_macros
    from .converters.macro.strings import MacroSources as MacroSources
    from .converters.macro.strings import macro_sources as macro_sources
    from .converters.macro.table import Macros as Macros
    from .converters.macro.table import read_macros as read_macros
    from .converters.macro.table import write_macros as write_macros
    from .converters.refusals import Reason as Reason
    from .converters.refusals import Refusal as Refusal
    from .converters.refusals import Refusals as Refusals
    from .converters.refusals import RefusedCount as RefusedCount
    from .converters.refusals import RefusedRecords as RefusedRecords
    from .converters.rules import CfaKind as CfaKind
    from .converters.rules import RaState as RaState
    from .converters.rules import RuleKind as RuleKind
    from .converters.sframe.lookup import FresAt as FresAt
    from .converters.sframe.lookup import find_fres as find_fres
    from .converters.sframe.project import project_sframe as project_sframe
    from .converters.sframe.read import from_sframe as from_sframe
    from .converters.sframe.write import Compact as Compact
    from .converters.sframe.write import to_sframe as to_sframe
    from .converters.strings import Strings as Strings
    from .converters.table.by_pc import RulesByPc as RulesByPc
    from .converters.table.by_pc import by_pc as by_pc
    from .converters.table.lookup import RowsAt as RowsAt
    from .converters.table.lookup import find_rows as find_rows
    from .converters.table.merge import SharedRange as SharedRange
    from .converters.table.merge import SharedRanges as SharedRanges
    from .converters.table.model import CfaRule as CfaRule
    from .converters.table.model import Function as Function
    from .converters.table.model import FunctionFlag as FunctionFlag
    from .converters.table.model import RegisterRule as RegisterRule
    from .converters.table.model import Row as Row
    from .converters.table.model import UnwindTable as UnwindTable
    from .converters.table.model import table_of as table_of
    from .converters.walk.backtrace import Backtrace as Backtrace
    from .converters.walk.backtrace import WalkedFrame as WalkedFrame
    from .converters.walk.backtrace import walk_frames as walk_frames
    from .converters.walk.caller import Caller as Caller
    from .converters.walk.caller import Frame as Frame
    from .converters.walk.caller import WalkEnd as WalkEnd
    from .converters.walk.caller import caller_frame as caller_frame
    from .explanation.explain import explain as explain
    from .explanation.model import CodeLine as CodeLine
    from .explanation.model import ExplainedField as ExplainedField
    from .explanation.model import ExplainedRecord as ExplainedRecord
    from .explanation.model import Explanation as Explanation
    from .jobs.breakpad import BreakpadReport as BreakpadReport
    from .jobs.breakpad import store_breakpad as store_breakpad
    from .jobs.breakpad import write_breakpad as write_breakpad
    from .jobs.check import CheckedPair as CheckedPair
    from .jobs.check import CheckReport as CheckReport
    from .jobs.check import RangeCount as RangeCount
    from .jobs.check import RowDifference as RowDifference
    from .jobs.check import check as check
    from .jobs.convert import ConvertReport as ConvertReport
    from .jobs.convert import convert as convert
    from .jobs.dump import dump_cfi as dump_cfi
    from .jobs.dump import dump_json as dump_json
    from .jobs.dump import dump_lines as dump_lines
    from .jobs.dump import dump_sections as dump_sections
    from .jobs.dump import dump_sframe as dump_sframe
    from .jobs.edit import EditReport as EditReport
    from .jobs.edit import edit_eh_frame as edit_eh_frame
    from .jobs.eh_frame_files import EhFrameReport as EhFrameReport
    from .jobs.eh_frame_files import write_eh_frame as write_eh_frame
    from .jobs.export import ExportReport as ExportReport
    from .jobs.export import export_file as export_file
    from .jobs.info import FileInfo as FileInfo
    from .jobs.info import SectionInfo as SectionInfo
    from .jobs.info import info as info
    from .jobs.line_conversion import LineReport as LineReport
    from .jobs.merge import MergeReport as MergeReport
    from .jobs.merge import merge_sframe as merge_sframe
    from .jobs.report import SframeFigures as SframeFigures
    from .jobs.section_dumps import JsonSection as JsonSection
    from .jobs.sframe_files import remove_sframe as remove_sframe
    from .jobs.sframe_files import write_sframe as write_sframe
    from .jobs.sframe_files import write_sframe_section as write_sframe_section
    from .jobs.sframe_report import SframeReport as SframeReport
    from .jobs.verify import UncoveredCode as UncoveredCode
    from .jobs.verify import VerifiedFile as VerifiedFile
    from .jobs.verify import VerifiedSource as VerifiedSource
    from .jobs.verify import VerifyReport as VerifyReport
    from .jobs.verify import WrongRow as WrongRow
    from .jobs.verify import verify as verify
    from .jobs.walk_process import walk_process as walk_process
    from .pages.report import report as report
    from .schemas.section import BuildError as BuildError
    from .schemas.section import FormatError as FormatError
    from .schemas.section import ParseError as ParseError
    from .schemas.section import Section as Section
    from .writers.elf.add import Writer as Writer
    from .writers.elf.remove import RemoveReport as RemoveReport


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # With `fromlist`, a name may also be a submodule of that package.
    home = __import__(f"{__name__}.{_HOMES[name]}", fromlist=[name])
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
