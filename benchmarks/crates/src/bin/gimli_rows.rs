//! Every row of a file's .eh_frame, by gimli: the number of rows on standard output.
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection};
use object::{Object, ObjectSection};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(std::env::args_os().nth(1).ok_or("no file")?)?;
    let file = object::File::parse(&*data)?;
    let section = file.section_by_name(".eh_frame").ok_or("no .eh_frame")?;
    let text = file.section_by_name(".text").map_or(0, |one| one.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let frames = EhFrame::new(section.data()?, LittleEndian);
    let (mut entries, mut context, mut rows) = (frames.entries(&bases), UnwindContext::new(), 0u64);
    while let Some(entry) = entries.next()? {
        if let CieOrFde::Fde(partial) = entry {
            let fde = partial.parse(EhFrame::cie_from_offset)?;
            let mut table = fde.rows(&frames, &bases, &mut context)?;
            while table.next_row()?.is_some() {
                rows += 1;
            }
        }
    }
    println!("{rows}");
    Ok(())
}
