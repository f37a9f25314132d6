"use strict";
// The table of functions: columns of each file, of which only the lines in view become elements.
// An entry is a function of a file; a line is what has one height: an entry, or a line of an open one.
(() => {
  const HIGH = 2 ** 32;
  const AHEAD = 10; // lines above and below the view
  const at = (id) => document.getElementById(id);
  const box = at("functions"), body = at("lines"), search = at("search"), status = at("found");
  const files = [];
  let entryFile, entryIndex, texts;
  let order = new Uint32Array(0); // entries as found and sorted
  let open = new Map(); // entry: its lines
  let opened = []; // [place in the order, number of lines], ascending
  let active = 0; // place in the order
  let height = 24, columns = 80; // of a line, in pixels; of the text of a detail
  let span = 1; // columns of the table that are shown
  let sorted = { key: "address", up: true };

  async function columnsOf(element) {
    const bytes = Uint8Array.from(atob(element.textContent.trim()), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function summed(deltas) {
    let sum = 0;
    return deltas.map((one) => (sum += one));
  }

  // What the columns of a file leave out because it follows from others.
  function completed(file) {
    const { functions, runs } = file;
    functions.high = summed(functions.high);
    functions.low = summed(functions.low);
    runs.first = [0, ...summed(runs.count)];
    file.users = new Uint32Array(runs.count.length);
    for (const run of functions.run) file.users[run] += 1;
    return file;
  }

  const hexadecimal = (high, low) =>
    "0x" + (high ? high.toString(16) + low.toString(16).padStart(8, "0") : low.toString(16));

  function address(entry, offset = 0) {
    const file = files[entryFile[entry]], index = entryIndex[entry];
    let low = file.functions.low[index] + offset, high = file.functions.high[index];
    high += Math.floor(low / HIGH);
    low %= HIGH;
    const section = file.sections.length ? file.sections[file.functions.section[index]] + "+" : "";
    return section + hexadecimal(high, low);
  }

  const column = (entry, name) => files[entryFile[entry]].functions[name][entryIndex[entry]];
  const rowsOf = (entry) => files[entryFile[entry]].runs.count[column(entry, "run")];
  const usersOf = (entry) => files[entryFile[entry]].users[column(entry, "run")];

  function sourcesOf(entry) {
    const bits = column(entry, "sources");
    return files[entryFile[entry]].sources.filter((_, number) => (bits >> number) & 1).join(" ");
  }

  const refusal = (entry, version) => {
    const list = files[entryFile[entry]].refused[version];
    return list ? list[column(entry, version)] : "";
  };

  // Search
  function searchText(entry) {
    const file = files[entryFile[entry]];
    const refused = ["v2", "v3"].map((one) => refusal(entry, one)).filter(Boolean).map((one) => "refused: " + one);
    const words = [column(entry, "name"), column(entry, "symbol"), address(entry), sourcesOf(entry), ...refused];
    return words.concat(files.length > 1 ? file.file : []).join("\n").toLowerCase();
  }

  // Whether the address is in the function; the difference is exact, also where the addresses are not.
  function covers(entry, high, low) {
    const distance = (high - column(entry, "high")) * HIGH + (low - column(entry, "low"));
    return distance >= 0 && distance < Number(column(entry, "size"));
  }

  function testOf(word) {
    const run = /^run:(\d+)$/.exec(word);
    if (run) return (entry) => column(entry, "run") === Number(run[1]);
    const number = /^0x([0-9a-f]{1,16})$/.exec(word);
    if (!number) return (entry) => texts[entry].includes(word);
    const digits = number[1].padStart(16, "0");
    const high = parseInt(digits.slice(0, 8), 16), low = parseInt(digits.slice(8), 16);
    return (entry) => texts[entry].includes(word) || covers(entry, high, low);
  }

  const KEYS = {
    address: (entry) => [column(entry, "high"), column(entry, "low")],
    size: (entry) => [Number(column(entry, "size"))],
    name: (entry) => [column(entry, "name") ? 0 : 1, column(entry, "name")],
    rows: (entry) => [rowsOf(entry)],
    shared: (entry) => [usersOf(entry)],
    sources: (entry) => [sourcesOf(entry)],
    file: (entry) => [entryFile[entry]],
    refused: (entry) => [refusal(entry, "v2") || refusal(entry, "v3") ? 0 : 1, refusal(entry, "v2")],
  };

  function compare(first, second) {
    for (let place = 0; place < first.length; place += 1) {
      if (first[place] < second[place]) return -1;
      if (first[place] > second[place]) return 1;
    }
    return 0;
  }

  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = words.map(testOf);
    const found = [];
    for (let entry = 0; entry < entryFile.length; entry += 1) {
      if (tests.every((test) => test(entry))) found.push(entry);
    }
    if (sorted.key !== "address" || !sorted.up || files.length > 1) {
      const keys = new Map(found.map((entry) => [entry, KEYS[sorted.key](entry)]));
      const sign = sorted.up ? 1 : -1;
      found.sort((one, two) => sign * compare(keys.get(one), keys.get(two)) || one - two);
    }
    order = Uint32Array.from(found);
    active = 0;
    const all = entryFile.length.toLocaleString("en");
    status.textContent = words.length ? `${order.length.toLocaleString("en")} of ${all} functions` : `${all} functions`;
    arrange();
    box.scrollTop = 0;
    draw();
  }

  // Lines
  function arrange() {
    opened = [];
    if (open.size) {
      order.forEach((entry, place) => open.has(entry) && opened.push([place, open.get(entry).length]));
    }
  }

  const lineCount = () => opened.reduce((sum, one) => sum + one[1], order.length);

  function lineOf(place) {
    let line = place;
    for (const [before, count] of opened) if (before < place) line += count;
    return line;
  }

  // The place of the entry that a line belongs to, and the number of the line in it; 0 is the entry itself.
  function locate(line) {
    let more = 0;
    for (const [place, count] of opened) {
      const start = place + more;
      if (line <= start) break;
      if (line <= start + count) return [place, line - start];
      more += count;
    }
    return [line - more, 0];
  }

  function wrapped(text, indent) {
    const width = Math.max(16, columns - indent.length);
    const found = [];
    let rest = text;
    while (rest.length > width) {
      let cut = rest.lastIndexOf(" ", width);
      if (cut < width / 2) cut = width;
      found.push(rest.slice(0, cut));
      rest = rest.slice(cut).trimStart();
    }
    return [...found, rest].map((one, number) => (number ? indent : "") + one);
  }

  function detailsOf(entry) {
    const file = files[entryFile[entry]], { runs } = file, run = column(entry, "run");
    const lines = [column(entry, "name") || "no symbol"];
    if (column(entry, "symbol") !== column(entry, "name")) lines.push("symbol: " + column(entry, "symbol"));
    if (files.length > 1) lines.push("file: " + file.file);
    const others = usersOf(entry) - 1;
    const shared = others ? `, the same as of ${others.toLocaleString("en")} others (search run:${run})` : "";
    lines.push(`${Number(column(entry, "size")).toLocaleString("en")} bytes, ${rowsOf(entry).toLocaleString("en")} rows${shared}`);
    lines.push("covered by: " + sourcesOf(entry));
    for (const version of ["v2", "v3"]) {
      const reason = refusal(entry, version);
      if (file.refused[version]) lines.push(`SFrame ${version[1]}: ` + (reason ? "refused: " + reason : "all rows"));
    }
    const text = lines.flatMap((line) => wrapped(line, "    "));
    let offset = 0;
    for (let row = runs.first[run]; row < runs.first[run + 1]; row += 1) {
      offset += runs.offset[row];
      text.push(...wrapped(`${address(entry, offset)}: ${file.rows[runs.row[row]]}`, "    "));
    }
    return text;
  }

  function cell(row, text, name) {
    const made = document.createElement("td");
    made.textContent = text;
    if (name) made.className = name;
    row.append(made);
    return made;
  }

  function entryRow(place, line) {
    const entry = order[place], row = document.createElement("tr");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = address(entry);
    button.tabIndex = place === active ? 0 : -1;
    button.dataset.place = place;
    button.setAttribute("aria-expanded", open.has(entry));
    cell(row, "").append(button);
    cell(row, Number(column(entry, "size")).toLocaleString("en"), "number size");
    cell(row, column(entry, "name") || "no symbol", "name");
    cell(row, rowsOf(entry).toLocaleString("en"), "number");
    cell(row, usersOf(entry).toLocaleString("en"), "number shared");
    cell(row, sourcesOf(entry), "sources");
    cell(row, refusal(entry, "v2") || refusal(entry, "v3"), "refused");
    if (files.length > 1) cell(row, String(entryFile[entry] + 1), "number");
    row.setAttribute("aria-rowindex", line + 2);
    return row;
  }

  function detailRow(place, number, line) {
    const row = document.createElement("tr");
    row.className = "detail";
    cell(row, open.get(order[place])[number - 1]).colSpan = span;
    row.setAttribute("aria-rowindex", line + 2);
    return row;
  }

  function spacer(lines) {
    const row = document.createElement("tr");
    row.setAttribute("aria-hidden", "true");
    row.className = "space";
    cell(row, "").style.height = `${lines * height}px`;
    return row;
  }

  function draw() {
    const hadFocus = body.contains(document.activeElement);
    const all = lineCount();
    const first = Math.max(0, Math.floor(box.scrollTop / height) - AHEAD);
    const last = Math.min(all, Math.ceil((box.scrollTop + box.clientHeight) / height) + AHEAD);
    const rows = first ? [spacer(first)] : [];
    for (let line = first; line < last; line += 1) {
      const [place, number] = locate(line);
      rows.push(number ? detailRow(place, number, line) : entryRow(place, line));
    }
    if (last < all) rows.push(spacer(all - last));
    body.replaceChildren(...rows);
    body.parentElement.setAttribute("aria-rowcount", all + 1);
    if (hadFocus) (buttonOf(active) || box).focus({ preventScroll: true });
  }

  const buttonOf = (place) => body.querySelector(`button[data-place="${place}"]`);

  function go(place) {
    if (!order.length) return;
    active = Math.max(0, Math.min(order.length - 1, place));
    const top = lineOf(active) * height, head = body.parentElement.tHead.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + height > box.scrollTop + box.clientHeight - head) box.scrollTop = top + height - box.clientHeight + head;
    draw();
    buttonOf(active)?.focus({ preventScroll: true });
  }

  function toggle(place) {
    const entry = order[place];
    if (!open.delete(entry)) open.set(entry, detailsOf(entry));
    arrange();
    go(place);
  }

  function measure() {
    const row = body.querySelector("tr:not(.space)"), probe = at("character");
    if (row) height = row.getBoundingClientRect().height || height;
    const heads = [...body.parentElement.tHead.querySelectorAll("th")];
    span = heads.filter((one) => getComputedStyle(one).display !== "none").length;
    const cellWidth = box.clientWidth - 24;
    columns = Math.max(20, Math.floor(cellWidth / (probe.getBoundingClientRect().width / 10)) - 2);
    for (const entry of open.keys()) open.set(entry, detailsOf(entry));
    arrange();
    draw();
  }

  function listen() {
    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(find, 80);
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") search.value = "";
      if (!["Enter", "ArrowDown", "Escape"].includes(event.key)) return;
      event.preventDefault();
      clearTimeout(waiting);
      find();
      if (event.key === "ArrowDown") go(0);
      if (event.key === "Enter" && order.length) open.has(order[0]) ? go(0) : toggle(0);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey || event.target === search) return;
      event.preventDefault();
      search.focus();
      search.select();
    });
    box.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(box.clientHeight / height) - 2);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -order.length, End: order.length };
      if (event.key === "Escape") search.focus();
      else if (event.key in steps && !event.target.dataset.key) go(active + steps[event.key]);
      else return;
      event.preventDefault();
    });
    body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      const button = row && row.querySelector("button");
      if (button) toggle(Number(button.dataset.place));
    });
    body.parentElement.tHead.addEventListener("click", (event) => {
      const key = event.target.dataset.key;
      if (!key) return;
      sorted = { key, up: sorted.key === key ? !sorted.up : true };
      for (const head of body.parentElement.tHead.querySelectorAll("th")) {
        const own = head.querySelector("button")?.dataset.key === key;
        own ? head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending") : head.removeAttribute("aria-sort");
      }
      find();
    });
    box.addEventListener("scroll", () => requestAnimationFrame(draw));
    window.addEventListener("resize", measure);
  }

  async function start() {
    for (const element of document.querySelectorAll("script.columns")) files.push(completed(await columnsOf(element)));
    const counts = files.map((file) => file.functions.low.length);
    entryFile = Uint16Array.from(counts.flatMap((count, number) => Array(count).fill(number)));
    entryIndex = Uint32Array.from(counts.flatMap((count) => Array.from({ length: count }, (_, index) => index)));
    texts = Array.from(entryFile, (_, entry) => searchText(entry));
    listen();
    at("live").hidden = false;
    find();
    measure();
  }

  start().catch((error) => {
    at("dead").hidden = false;
    at("dead").textContent = `The table of functions cannot be shown: ${error.message || error}`;
  });
})();
