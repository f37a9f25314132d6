//! A file's .eh_frame, read by gimli and written again at its address: the bytes go to the second path.
use gimli::write::{Address, EhFrame, EndianVec, FrameTable};
use gimli::LittleEndian;
use object::{Object, ObjectSection};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let data = std::fs::read(arguments.next().ok_or("no file")?)?;
    let file = object::File::parse(&*data)?;
    let section = file.section_by_name(".eh_frame").ok_or("no .eh_frame")?;
    let mut frames = gimli::EhFrame::new(section.data()?, LittleEndian);
    frames.set_address_size(8);
    let table = FrameTable::from(&frames, &|address| Some(Address::Constant(address)))?;
    let mut written = EhFrame::from(EndianVec::new(LittleEndian));
    table.write_eh_frame(&mut written)?;
    std::fs::write(arguments.next().ok_or("no output")?, written.slice())?;
    Ok(())
}
