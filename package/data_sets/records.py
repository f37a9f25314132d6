"""The data sets of the records of `.eh_frame` and `.debug_frame`: what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..converters.arrays import group_numbers
from ..converters.cfi.records import Records, read_records
from ..converters.elf.relocation import LaidOut, place_addresses, relocate
from ..converters.files.read_elf import DIALECTS
from ..schemas.pointers import PointerBases
from .fields import DATA_SETS, CieFields, FdeFields
from .model import DataSet, Texts

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cies_and_fdes(laid: LaidOut, names: Sequence[str]) -> tuple[DataSet, DataSet]:
    """The CIEs that FDEs refer to, and the FDEs, of all sections of these names. Raises ParseError."""
    found = list(_records_of(laid, names))
    cies = CieFields.concatenate([CieFields.empty(0), *(_cies(laid, records) for records in found)])
    fdes = FdeFields.concatenate([FdeFields.empty(0), *(_fdes(laid, records) for records in found)])
    name = np.array([names.index(records.section.name) for records in found], np.int64)
    cie_name, fde_name = (
        name[group_numbers(np.array(counts, np.int64))]
        for counts in ([len(one.cie_offset) for one in found], [len(one.fdes) for one in found])
    )
    augmentations = [
        cie.augmentation.decode("utf-8", "backslashreplace") for records in found for cie, _ in records.cies.parsed
    ]
    of_cies = {"source": Texts(names, cie_name), "augmentation": Texts(augmentations, np.arange(len(cies)))}
    of_fdes = {"source": Texts(names, fde_name)}
    return DataSet(DATA_SETS["cies"], of_cies, (cies,)), DataSet(DATA_SETS["fdes"], of_fdes, (fdes,))


def _records_of(laid: LaidOut, names: Sequence[str]) -> Iterator[Records]:
    bases = PointerBases(data=laid.image.data_base)
    for name in names:
        for header in laid.image.named(name):
            yield read_records(relocate(laid, header), DIALECTS[name], laid.image.architecture, bases)


def _cies(laid: LaidOut, records: Records) -> CieFields:
    columns, parsed = records.cies.columns, records.cies.parsed
    cies = records.entries.select(np.searchsorted(records.entries.offset, records.cie_offset))
    return CieFields(
        cies.offset,
        cies.end - cies.offset,
        np.array([cie.version for cie, _ in parsed], np.uint8),
        columns.code_factor,
        columns.data_factor,
        columns.return_column,
        columns.address_encoding,
        columns.lsda_encoding,
        columns.personality_encoding,
        placed(laid, columns.personality),
    )


def _fdes(laid: LaidOut, records: Records) -> FdeFields:
    fdes, functions = records.fdes, records.functions
    return FdeFields(
        fdes.offset,
        fdes.end - fdes.offset,
        records.cie_offset[records.cie],
        fdes.end - records.instructions,
        placed(laid, functions.start),
        functions.size,
    )


def placed(laid: LaidOut, address: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Addresses, in a relocatable file relative to their sections."""
    return place_addresses(laid, address)[1] if laid.is_relocatable else address
