"""The style of reports, beside what all pages have."""

from __future__ import annotations

# Colours that stay apart for the colour-blind; each has a text beside it.
STYLE = """
:root { --good: #2f6fa8; --refused: #d9822b; --padding: #b9c0c9; --bare: #a3123a; --field: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --good: #5b9bd5; --refused: #e8a35c; --padding: #5a626d; --bare: #e4587c; --field: #20242a; }
}
a { color: var(--link); }
h3 { font-size: 0.95rem; margin: 1rem 0 0.2rem; overflow-wrap: anywhere; }
.number, #functions th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th[scope=row] { font-weight: 400; }
th.number { white-space: normal; }
.sentences th[scope=row] { min-width: 11rem; }
.file { overflow-wrap: anywhere; min-width: 9rem; }
svg.bar { display: block; width: 100%; min-width: 3.5rem; height: 0.8rem; }
.bars td.picture { width: 45%; vertical-align: middle; }
.good { fill: var(--good); background: var(--good); }
.refused-part { fill: var(--refused); background: var(--refused); }
.padding { fill: var(--padding); background: var(--padding); }
.bare { fill: var(--bare); background: var(--bare); }
.key { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 0; vertical-align: -0.05em; }
.key-text { display: inline-block; margin-right: 1rem; }
.mark { font-weight: 600; color: var(--bare); }
.side { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.side > section { min-width: 0; }
#search { width: 100%; box-sizing: border-box; padding: 0.4rem; font: inherit; color: inherit; background: var(--field);
  border: 1px solid var(--dim); border-radius: 4px; }
#functions { position: relative; overflow: auto; height: min(70vh, 44rem); border: 1px solid var(--line); }
#functions table { table-layout: fixed; min-width: 100%; }
#functions th { position: sticky; top: 0; background: var(--field); z-index: 1; overflow: hidden; }
#functions td, #functions th { height: 1.6rem; padding: 0 0.4rem; box-sizing: border-box; border: 0;
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis; vertical-align: middle; }
#functions tr.detail td { padding-left: 1.2rem; background: var(--row); white-space: pre; text-overflow: clip;
  font: 0.85rem/1.45 ui-monospace, monospace; }
#functions tr.space td { height: auto; padding: 0; }
#functions button { font: 0.85rem/1.45 ui-monospace, monospace; color: var(--link); background: none; border: 0;
  padding: 0; cursor: pointer; }
#functions th button { font: inherit; font-weight: 600; color: inherit; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
#functions tr:not(.detail, .space):hover td, #functions tr:focus-within td { background: var(--mark); }
#functions thead tr:hover th { background: var(--field); }
#character { position: absolute; visibility: hidden; font: 0.85rem/1.45 ui-monospace, monospace; }
.w-address { width: 9rem; } .w-size, .w-rows, .w-shared { width: 4.6rem; } .w-sources { width: 9rem; }
.w-refused { width: 11rem; } .w-file { width: 3rem; }
@media (max-width: 50rem) {
  .w-sources, .w-shared, .w-size, .w-refused, #functions :is(.sources, .shared, .size, .refused) { display: none; }
  .w-address { width: 7.5rem; }
  td, th { padding-right: 0.4rem; }
  .bars td.picture { width: 30%; }
}
@media print { #live, #dead { display: none; } }
"""
