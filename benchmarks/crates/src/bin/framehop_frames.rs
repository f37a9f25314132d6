//! The caller of the first address of every FDE of a file, by framehop: how many were found, on standard output.
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(std::env::args_os().nth(1).ok_or("no file")?)?;
    let file = object::File::parse(&*data)?;
    let range = |name| file.section_by_name(name).map(|one| one.address()..one.address() + one.size());
    let bytes = |name| file.section_by_name(name).and_then(|one| one.data().ok());
    let info = ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        text: bytes(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        ..Default::default()
    };
    let mut unwinder = UnwinderX86_64::new();
    unwinder.add_module(Module::new("file".to_string(), 0..u64::MAX / 2, 0, info));
    let bases = BaseAddresses::default().set_eh_frame(range(".eh_frame").ok_or("no .eh_frame")?.start);
    let frames = EhFrame::new(bytes(".eh_frame").ok_or("no .eh_frame")?, LittleEndian);
    let (mut entries, mut cache, mut found) = (frames.entries(&bases), CacheX86_64::<_>::new(), 0u64);
    while let Some(entry) = entries.next()? {
        if let CieOrFde::Fde(partial) = entry {
            let address = partial.parse(EhFrame::cie_from_offset)?.initial_address();
            let mut registers = UnwindRegsX86_64::new(address, 0x1000, 0x2000);
            let frame = FrameAddress::from_instruction_pointer(address);
            let caller = unwinder.unwind_frame(frame, &mut registers, &mut cache, &mut |place| Ok(place));
            found += u64::from(matches!(caller, Ok(Some(_))));
        }
    }
    println!("{found}");
    Ok(())
}
