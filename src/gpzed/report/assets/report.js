"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const fail = (text) => { $("failure").textContent = text; $("failure").hidden = false; };

  // ---- unpacking -------------------------------------------------------------------------------------------------
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const unpack = async (id) => {
    const stream = new Blob([bytesOf($(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  if (typeof DecompressionStream === "undefined") {
    fail("This page needs a browser of 2023 or later: yours cannot unpack its data.");
    return;
  }
  const library = document.createElement("script");
  library.textContent = await unpack("packed-plotly");
  document.head.append(library);
  const page = JSON.parse(await unpack("packed-data"));
  const percent = page.percent, last = percent.length - 1, sets = page.sets;

  /** Objects of each position, as cells: lists that the varints of `text` hold as differences. */
  const cellsOf = (text) => {
    const data = bytesOf(text), groups = [];
    let at = 0;
    const next = () => {
      let value = 0, scale = 1, byte;
      do { byte = data[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
      return value;
    };
    for (let g = 0; g < percent.length; g++) {
      const group = new Uint32Array(next());
      for (let i = 0, cell = 0; i < group.length; i++) group[i] = cell += next();
      groups.push(group);
    }
    return groups;
  };
  /** Put single objects in the order in which the slider adds them, so that those kept are the first ones. */
  const sortPoints = (points) => {
    const order = points.position.map((_, i) => i).sort((a, b) => points.position[a] - points.position[b]);
    const sorted = (values) => order.map((i) => values[i]);
    for (const key of ["x", "y", "z_phot", "std", "position", "outlier", "id"]) if (points[key]) points[key] = sorted(points[key]);
    for (const key of ["columns", "errors"]) for (const name of Object.keys(points[key] ?? {})) points[key][name] = sorted(points[key][name]);
    points.first = percent.map((_, g) => { const end = points.position.findIndex((p) => p > g); return end < 0 ? order.length : end; });
  };
  for (const set of sets) {
    set.groups = cellsOf(set.cells.objects);
    const raw = bytesOf(set.density.sums), width = set.density.grid.length;
    set.sums = Float64Array.from(new Float32Array(raw.buffer, raw.byteOffset, raw.byteLength / 4));
    for (let i = width; i < set.sums.length; i++) set.sums[i] += set.sums[i - width];
    sortPoints(set.points);
  }

  // ---- state -----------------------------------------------------------------------------------------------------
  const state = { set: 0, at: last, colour: "count", metric: "rmse", by: "z_spec" };
  const phone = matchMedia("(max-width: 760px)");
  const compare = sets.length > 1 && sets.every((set) => set.truth);
  const current = () => sets[state.set];
  const number = (n) => n.toLocaleString("en-US");

  /** Counts, and sums of log sigma, of the objects kept, in cells; kept from one position to the next. */
  const map = { set: -1, at: -1, count: null, logs: null };
  const updateMap = () => {
    const set = current(), size = set.cells.side ** 2 + 1;
    if (map.set !== state.set) {
      map.set = state.set; map.at = -1; map.count = new Int32Array(size); map.logs = new Float64Array(size);
    }
    const step = (g, sign) => {
      const log = sign * set.cells.log_std[g];
      for (const cell of set.groups[g]) { map.count[cell] += sign; map.logs[cell] += log; }
    };
    while (map.at < state.at) step(++map.at, 1);
    while (map.at > state.at) step(map.at--, -1);
  };

  // ---- look ------------------------------------------------------------------------------------------------------
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  let chosenTheme = null;
  const theme = () => chosenTheme ?? (preferred.matches ? "dark" : "light");
  const known = new Map();
  const css = (name) => {
    if (!known.has(name)) known.set(name, getComputedStyle(root).getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
  const viridis = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"]
    .map((colour, i) => [i / 9, colour]);
  const applyTheme = () => {
    known.clear();
    root.dataset.theme = theme();
    $("theme").textContent = theme() === "dark" ? "☀" : "☾";
  };
  const scale = () => theme() === "dark"
    ? [[0, "#1d3a52"], [.25, "#20639b"], [.5, "#2c9cc4"], [.75, "#7fd0c4"], [1, "#f2f7d0"]]
    : [[0, "#d6e6f2"], [.25, "#8fbfdc"], [.5, "#3f8fc0"], [.75, "#135e9a"], [1, "#08244a"]];
  const series = () => ["blue", "orange", "green", "pink", "grey"].map(css);
  const axis = (title, more = {}) => ({
    title: { text: title, standoff: 6, font: { size: 12.5 } }, gridcolor: css("grid"), linecolor: css("line"), zeroline: false,
    ticks: "outside", ticklen: 4, tickcolor: css("line"), automargin: true, showline: true, mirror: true, ...more,
  });
  const layout = (x, y, more = {}) => ({
    xaxis: x, yaxis: y, margin: { l: 52, r: 12, t: 8, b: 42 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("ink") }, showlegend: false,
    hoverlabel: { bgcolor: css("card"), bordercolor: css("line"), font: { color: css("ink"), size: 12.5 }, align: "left" },
    dragmode: phone.matches ? false : "zoom", uirevision: `${state.set}`,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 12 } }, ...more,
  });
  const config = { responsive: true, displaylogo: false, displayModeBar: phone.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], doubleClick: "reset" };
  /** A range from or to zero with round ends that holds all values: few positions of the slider need another one. */
  const fit = (values) => {
    const reach = (most) => {
      if (!(most > 0)) return 0;
      const unit = 10 ** Math.floor(Math.log10(most));
      return unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => most <= step * unit * (1 + 1e-9));
    };
    const known = values.filter((v) => v !== null), low = -reach(Math.max(0, ...known.map((v) => -v))), high = reach(Math.max(0, ...known));
    return low === high ? [0, 1] : [low, high];
  };
  const shownRanges = {};
  const line = (x, y, colour, more = {}) =>
    ({ type: "scatter", mode: "lines", x, y, line: { color: colour, width: 2 }, hoverinfo: "skip", ...more });

  // ---- cards -----------------------------------------------------------------------------------------------------
  const card = (id, title, classes = "", tools = "", note = "") => {
    const box = document.createElement("article");
    box.className = `card ${classes}`;
    box.innerHTML = `<div class="title"><h2>${title}</h2><div>${tools}</div></div>` +
      `<div id="${id}" class="plot" role="img" aria-label="${title}"></div><p class="quiet" id="${id}-note">${note}</p>`;
    $("cards").append(box);
  };
  const truth = sets.some((set) => set.truth);
  card("scatter", truth ? "Photometric against true redshift" : "Predicted uncertainty against redshift", "tall",
    `<select id="colour" aria-label="Colour of the cells"><option value="count">by number</option>` +
    `<option value="std">by uncertainty</option></select>`);
  card("nz", "Distribution of redshifts", "", "", "Histogram of the objects kept, and the sum of their predicted densities.");
  if (truth) {
    card("rejection", "Score of the objects kept", "",
      `<select id="metric" aria-label="Metric">${page.headings.filter(([name]) => name !== "n")
        .map(([name, heading]) => `<option value="${name}">${heading}</option>`).join("")}</select>`,
      "Objects are kept by predicted variance, the smallest first.");
    card("bias", "Bias in bins of redshift", "third",
      `<select id="by" aria-label="Bins of"><option value="z_spec">bins of z_spec</option>` +
      `<option value="z_phot">bins of z_phot</option></select>`, "Mean of (z_spec − z_phot) / (1 + z_spec), with its standard error.");
    card("pit", "Probability integral transform", "third", "", "Flat if the uncertainties are right; the band holds 95 % of such bars.");
    card("reliability", "Reliability of intervals", "third", "", "Below the diagonal the intervals are too narrow.");
  } else {
    card("limits", "Uncertainty against objects kept", "", "", "Largest predicted standard deviation among the objects kept, and the RMSE their variances promise.");
  }
  card("parts", "Where the uncertainty comes from", truth ? "fill" : "full", "",
    "All objects: median, quartiles and 5–95 % range in bins of redshift. More spectra reduce the model's part, better photometry the noise.");
  if (truth) {
    const box = document.createElement("article");
    box.className = "card";
    box.innerHTML = `<div class="title"><h2>Scores</h2></div><div class="scroll"><table id="scores"></table></div>` +
      `<p class="quiet">As <code>gpzed evaluate</code> gives them for the objects kept.</p>`;
    $("cards").append(box);
  }

  // ---- drawing ---------------------------------------------------------------------------------------------------
  const centres = ([low, high], side) => Array.from({ length: side }, (_, i) => low + (i + .5) * (high - low) / side);

  const bar = (title) => ({ orientation: "h", y: 1, yanchor: "bottom", x: .5, len: .8, thickness: 9, outlinewidth: 0, ypad: 4,
    tickfont: { size: 11 }, title: { text: title, side: "top", font: { size: 11.5 } } });

  const hover = (set, i) => {
    const p = set.points, shown = (v, digits) => v === null || v === undefined ? "–" : v.toFixed(digits);
    const rows = [];
    if (p.id) rows.push(`<b>${p.id[i].replace(/&/g, "&amp;").replace(/</g, "&lt;")}</b>`);
    if (set.truth) rows.push(`z_spec ${shown(p.x[i], 4)}`);
    rows.push(`z_phot ${shown(p.z_phot[i], 4)} ± ${shown(p.std[i], 4)}`);
    for (const [name, values] of Object.entries(p.columns ?? {})) {
      const error = p.errors?.[name]?.[i];
      rows.push(`${name} ${shown(values[i], 3)}${error === null || error === undefined ? "" : ` ± ${shown(error, 3)}`}`);
    }
    return rows.join("<br>");
  };

  /** Most objects in a cell when all are kept: the colours mean the same at all positions. */
  const fullest = (set) => {
    if (set.fullest === undefined) {
      const count = new Int32Array(set.cells.side ** 2);
      for (const group of set.groups) for (const cell of group) if (cell < count.length) count[cell]++;
      set.fullest = count.reduce((a, b) => Math.max(a, b), 2);
    }
    return set.fullest;
  };

  const cellTrace = (set, moving) => {
    const { side, x, y } = set.cells, byStd = state.colour === "std", top = fullest(set);
    const low = byStd ? set.cells.log_std[0] : 0, high = byStd ? set.cells.log_std[last] : Math.log10(top);
    const values = (cell) => { const n = map.count[cell]; return n === 0 ? null : byStd ? map.logs[cell] / n : Math.log10(n); };
    const stops = byStd ? viridis : scale();
    if (moving) return { cells: { side, x, y, values, low, high, table: Painter.palette(stops) } };
    const z = Array.from({ length: side }, (_, r) => Array.from({ length: side }, (_, c) => values(r * side + c)));
    const powers = Array.from({ length: Math.ceil(Math.log10(top)) + 1 }, (_, i) => i);
    return {
      type: "heatmap", x: centres(x, side), y: centres(y, side), z, zmin: low, zmax: high,
      colorscale: stops, hoverongaps: false, zsmooth: false,
      hovertemplate: `${set.truth ? "z_spec" : "z_phot"} %{x:.3f}<br>${set.truth ? "z_phot" : "log σ"} %{y:.3f}<br>` +
        (byStd ? "log10 σ %{z:.2f}" : "%{customdata} objects") + "<extra></extra>",
      customdata: byStd ? undefined : z.map((row) => row.map((v) => v === null ? 0 : Math.round(10 ** v))),
      colorbar: { ...bar(byStd ? "log₁₀ σ" : "objects per cell"),
        ...(byStd ? {} : { tickvals: powers, ticktext: powers.map((v) => number(10 ** v)) }) },
    };
  };

  const makeScatter = (moving) => {
    updateMap();
    const set = current(), { side, x, y } = set.cells, traces = [], p = set.points, n = p.first[state.at];
    if (!p.all) traces.push(cellTrace(set, moving));
    $("colour").hidden = p.all;
    set.texts ??= p.x.map((_, i) => hover(set, i));
    const colours = p.all
      ? { color: p.std.slice(0, n).map(Math.log10), colorscale: viridis, cmin: set.cells.log_std[0], cmax: set.cells.log_std[last],
          colorbar: bar("log₁₀ σ") }
      : { color: css("orange") };
    traces.push({
      type: "scatter", mode: "markers", name: "outliers", x: p.x.slice(0, n), y: p.y.slice(0, n), text: set.texts.slice(0, n),
      table: p.all && moving ? Painter.palette(viridis) : undefined,
      hovertemplate: "%{text}<extra></extra>", marker: { size: p.all ? 5 : 4, opacity: p.all ? .85 : .75, line: { width: 0 }, ...colours },
    });
    if (set.truth) {
      traces.push(line(x, x, css("ink"), { line: { color: css("ink"), width: 1 } }));
      for (const sign of [-1, 1]) {
        traces.push(line(x, x.map((v) => v + sign * .15 * (1 + v)), css("quiet"), { line: { color: css("quiet"), width: 1, dash: "dot" } }));
      }
    }
    const top = { margin: { l: 52, r: 14, t: 58, b: 42 } };
    const shape = set.truth
      ? layout(axis("spectroscopic redshift", { range: x, constrain: "domain" }), axis("photometric redshift", { range: y, constrain: "domain", scaleanchor: "x" }), top)
      : layout(axis("photometric redshift", { range: x }), axis("log₁₀ of the predicted standard deviation", { range: y }), top);
    const outside = map.count[side * side], kept = p.outlier.slice(0, n).reduce((a, b) => a + b, 0);
    const all = p.all || p.n_outliers <= p.x.length;
    $("scatter-note").textContent = (set.truth
      ? `Dotted: error of 0.15 (1 + z). ${p.all ? "Points are objects" : "Orange: outliers beyond it"}` +
        (all ? `, ${number(kept)} of ${number(p.n_outliers)} outliers kept` : `, ${number(p.x.length)} of ${number(p.n_outliers)} drawn at random`) +
        "; hover or tap for id and photometry."
      : "Each cell counts objects.") + (outside && !p.all ? ` ${number(outside)} objects lie outside the frame.` : "");
    return [traces, shape];
  };

  const makeRedshifts = () => {
    updateMap();
    const set = current(), { side, x, y } = set.cells, step = Math.max(1, Math.round(side / 60)), bins = Math.ceil(side / step);
    const histogram = (range, pick) => {
      const sums = new Float64Array(bins);
      for (let r = 0; r < side; r++) for (let c = 0; c < side; c++) sums[Math.floor(pick(r, c) / step)] += map.count[r * side + c];
      const width = step * (range[1] - range[0]) / side, kept = set.kept[state.at];
      return { x: Array.from(sums, (_, i) => range[0] + (i + .5) * width), y: Array.from(sums, (v) => v / kept / width), width };
    };
    const traces = [];
    const bars = (h, name, colour, filled) => traces.push({
      type: "scatter", mode: "lines", name, x: h.x, y: h.y, line: { shape: "hvh", color: colour, width: filled ? 0 : 1.8 },
      ...(filled ? { fill: "tozeroy", fillcolor: css("band") } : {}), hovertemplate: `z %{x:.2f}: %{y:.3f}<extra>${name}</extra>`,
    });
    if (set.truth) bars(histogram(x, (r, c) => c), "z_spec", css("grey"), true);
    bars(set.truth ? histogram(y, (r) => r) : histogram(x, (r, c) => c), "z_phot", css("blue"), false);
    const grid = set.density.grid, from = state.at * grid.length;
    const stacked = Array.from(set.sums.subarray(from, from + grid.length), (v) => v / set.kept[state.at]);
    traces.push(line(grid, stacked, css("orange"), { name: "densities", hovertemplate: "z %{x:.2f}: %{y:.3f}<extra>densities</extra>" }));
    const range = fit(traces.flatMap((trace) => trace.y));
    return [traces, layout(axis("redshift", { range: [Math.max(0, grid[0]), grid[grid.length - 1]] }),
      axis("n(z), normalised", { range }), { showlegend: true, margin: { l: 52, r: 12, t: 26, b: 42 } })];
  };

  const makeRejection = () => {
    const colours = series(), traces = [], heading = Object.fromEntries(page.headings)[state.metric];
    const used = compare ? sets : [current()];
    used.forEach((set, i) => {
      const y = set.scores.values[state.metric], shown = set.scores.shown[state.metric];
      traces.push(line(percent, y, colours[i % 5], { name: set.name, hoverinfo: "all", text: shown,
        hovertemplate: `%{x} % kept: %{text}<extra>${compare ? set.name : ""}</extra>` }));
      traces.push({ type: "scatter", mode: "markers", x: [percent[state.at]], y: [y[state.at]], marker: { size: 9, color: colours[i % 5] },
        hoverinfo: "skip", showlegend: false });
    });
    const lines = [{ type: "line", x0: percent[state.at], x1: percent[state.at], yref: "paper", y0: 0, y1: 1, line: { color: css("grey"), width: 1, dash: "dot" } }];
    return [traces, layout(axis("objects kept [%]", { range: [0, 101] }), axis(heading), { shapes: lines, showlegend: compare,
      margin: { l: 58, r: 12, t: compare ? 26 : 8, b: 42 }, uirevision: state.metric })];
  };

  const makeBias = () => {
    const set = current(), bins = set.bias[state.by], edges = bins.edges, rows = [];
    for (let b = 0; b + 1 < edges.length; b++) if (bins.count[state.at][b] >= 5) rows.push(b);
    const pick = (values) => rows.map((b) => values[state.at][b]);
    const range = fit([-1, 1].flatMap((sign) => rows.map((b) => bins.mean[state.at][b] + sign * bins.error[state.at][b])));
    return [[line([edges[0], edges[edges.length - 1]], [0, 0], css("grey"), { line: { color: css("grey"), width: 1 } }),
      { type: "scatter", mode: "lines+markers", x: rows.map((b) => (edges[b] + edges[b + 1]) / 2), y: pick(bins.mean), text: pick(bins.count).map(number),
        error_y: { array: pick(bins.error), color: css("blue"), thickness: 1.2, width: 2 }, line: { color: css("blue"), width: 1.8 }, marker: { size: 6 },
        hovertemplate: "z %{x:.2f}: %{y:+.4f}<br>%{text} objects<extra></extra>" }],
    layout(axis(state.by, { range: [edges[0], edges[edges.length - 1]] }), axis("bias", { tickformat: "+.3~f", range }))];
  };

  const makePit = () => {
    const set = current(), counts = set.pit.counts[state.at], n = set.kept[state.at], bins = counts.length;
    const error = 2 * Math.sqrt((bins - 1) / n), density = counts.map((c) => c * bins / n);
    return [[{ type: "bar", x: counts.map((_, i) => (i + .5) / bins), y: density, width: 1 / bins, marker: { color: css("fill"), line: { color: css("blue"), width: 1.4 } },
      hovertemplate: "%{x:.3f}: %{y:.3f}<extra></extra>" }],
    layout(axis("probability below the true redshift", { range: [0, 1] }), axis("density", { range: fit([...density, 1 + error]) }), { bargap: 0, shapes: [
      { type: "rect", x0: 0, x1: 1, y0: Math.max(0, 1 - error), y1: 1 + error, fillcolor: css("band"), line: { width: 0 }, layer: "above" },
      { type: "line", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: css("ink"), width: 1 } }] })];
  };

  const makeReliability = () => {
    const set = current(), nominal = set.pit.nominal, n = set.kept[state.at], actual = set.pit.inside[state.at].map((v) => v / n);
    return [[line([0, 1], [0, 1], css("grey"), { line: { color: css("grey"), width: 1 } }),
      { type: "scatter", mode: "lines+markers", x: nominal, y: actual, line: { color: css("blue"), width: 1.8 }, marker: { size: 5 },
        hovertemplate: "%{x:.0%} interval holds %{y:.1%}<extra></extra>" }],
    layout(axis("probability of the interval", { range: [0, 1] }), axis("share of objects inside", { range: [0, 1] }))];
  };

  const makeLimits = () => {
    const set = current();
    return [[line(percent, set.max_std, css("blue"), { name: "largest σ", hovertemplate: "%{x} %: σ ≤ %{y:.4f}<extra></extra>" }),
      line(percent, set.expected_rmse, css("orange"), { name: "expected RMSE", hovertemplate: "%{x} %: RMSE %{y:.4f}<extra></extra>" })],
    layout(axis("objects kept [%]", { range: [0, 101] }), axis("redshift", { rangemode: "tozero" }), { showlegend: true, margin: { l: 58, r: 12, t: 26, b: 42 },
      shapes: [{ type: "line", x0: percent[state.at], x1: percent[state.at], yref: "paper", y0: 0, y1: 1, line: { color: css("grey"), width: 1, dash: "dot" } }] })];
  };

  const makeParts = () => {
    const set = current(), edges = set.parts.edges, colours = { model: css("blue"), noise: css("orange"), input: css("green") };
    const names = Object.keys(set.parts.boxes), width = edges[1] - edges[0];
    const traces = names.map((name, i) => {
      const box = set.parts.boxes[name], rows = box.median.map((_, b) => b).filter((b) => box.median[b] !== null && box.q1[b] > 0);
      const pick = (values) => rows.map((b) => values[b]);
      return { type: "box", name, x: rows.map((b) => edges[b] + (i + .5) * width / names.length), lowerfence: pick(box.low), q1: pick(box.q1),
        median: pick(box.median), q3: pick(box.q3), upperfence: pick(box.high), width: .7 * width / names.length, line: { color: colours[name], width: 1.3 },
        hoverinfo: "y" };
    });
    return [traces, layout(axis(set.truth ? "spectroscopic redshift" : "photometric redshift", { range: [edges[0], edges[edges.length - 1]] }),
      axis("standard deviation", { type: "log", dtick: "D2" }), { showlegend: true, margin: { l: 58, r: 12, t: 26, b: 42 } })];
  };

  const drawNumbers = () => {
    const set = current(), at = state.at;
    $("percent").textContent = `${percent[at]} %`;
    $("keep").value = percent[at];
    $("limit").textContent = `${number(set.kept[at])} of ${number(set.n)} objects, σ up to ${set.max_std[at].toPrecision(3)}`;
    const tiles = set.truth
      ? ["rmse", "fr_0.15", "fr_0.05", "bias", "sigma_nmad", "mll", "coverage_68"].map((name) =>
        [name, Object.fromEntries(page.headings)[name], set.scores.shown[name][at], `all: ${set.scores.shown[name][last]}`])
      : [["expected_rmse", "expected RMSE", set.expected_rmse[at].toFixed(4), `all: ${set.expected_rmse[last].toFixed(4)}`],
        ["max_std", "largest σ", set.max_std[at].toFixed(4), `all: ${set.max_std[last].toFixed(4)}`]];
    tiles.push(["n", "objects", number(set.kept[at]), `all: ${number(set.n)}`]);
    $("tiles").innerHTML = tiles.map(([name, heading, value, all]) =>
      `<div class="tile" data-metric="${name}"><span>${heading.replace("sigma_NMAD", "σ NMAD")}</span><b>${value}</b><small>${all}</small></div>`).join("");
    if (!truth) return;
    const columns = compare ? sets.map((one) => [one.name, one.scores.shown, at])
      : set.truth ? [[`${percent[at]} % kept`, set.scores.shown, at], ["all", set.scores.shown, last]] : [];
    $("scores").innerHTML = `<tr><th></th>${columns.map(([name]) => `<th>${escape(name)}</th>`).join("")}</tr>` +
      page.headings.map(([name, heading]) => `<tr data-metric="${name}"><td>${heading}</td>${columns.map(([, shown, i]) => `<td>${shown[name][i]}</td>`).join("")}</tr>`).join("");
  };
  const escape = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");

  const makers = { scatter: makeScatter, nz: makeRedshifts, rejection: makeRejection, bias: makeBias, pit: makePit,
    reliability: makeReliability, limits: makeLimits, parts: makeParts };
  /** Names of the figures that have something to show; those that follow the slider first. */
  const shownFigures = () => Object.keys(makers).filter((id) => $(id) && !$(id).closest(".card").hidden);
  const movingFigures = () => shownFigures().filter((id) => id !== "parts");
  const rangeOf = (shape) => `${shape.yaxis.range}`;
  const draw = (id, [traces, shape] = makers[id](false)) => {
    shownRanges[id] = rangeOf(shape); // before plotly.js writes its own into it
    Plotly.react(id, traces, shape, config);
    Painter.clear($(id));
  };
  /** Show a figure as the slider wants it at once, over what plotly.js drew; drawn anew only where an axis has to change. */
  const paint = (id) => {
    const [traces, shape] = makers[id](true);
    if (rangeOf(shape) !== shownRanges[id]) draw(id);
    else Painter.paint($(id), traces, shape.shapes);
  };
  const drawAll = () => {
    const set = current();
    $("about").textContent = [set.about.file, `${number(set.n)} objects`, ...(set.about.facts ?? [])].filter(Boolean).join(" · ");
    for (const id of ["rejection", "bias", "pit", "reliability"]) {
      const box = $(id)?.closest(".card");
      if (box) box.hidden = !set.truth && !(id === "rejection" && compare);
    }
    drawNumbers();
    for (const id of shownFigures()) draw(id);
  };

  // ---- controls --------------------------------------------------------------------------------------------------
  // All that moves is painted in the next frame. plotly.js follows, a figure at a time, when the slider rests.
  let waiting = false, rest = 0;
  const catchUp = (left) => {
    if (left.length === 0) { document.body.dataset.at = percent[state.at]; return; }
    draw(left[0]);
    rest = setTimeout(catchUp, 0, left.slice(1));
  };
  $("keep").addEventListener("input", (event) => {
    state.at = event.target.valueAsNumber - 1;
    clearTimeout(rest);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawNumbers();
      for (const id of movingFigures()) paint(id);
      document.body.dataset.painted = percent[state.at];
      rest = setTimeout(catchUp, 200, movingFigures());
    });
  });
  $("colour").addEventListener("change", (event) => { state.colour = event.target.value; draw("scatter"); });
  $("metric")?.addEventListener("change", (event) => { state.metric = event.target.value; draw("rejection"); });
  $("by")?.addEventListener("change", (event) => { state.by = event.target.value; draw("bias"); });
  $("theme").addEventListener("click", () => { chosenTheme = theme() === "dark" ? "light" : "dark"; applyTheme(); drawAll(); });
  preferred.addEventListener("change", () => { applyTheme(); drawAll(); });
  phone.addEventListener("change", () => drawAll());
  if (sets.length > 1) {
    $("sets").hidden = false;
    sets.forEach((set, i) => {
      const button = document.createElement("button");
      button.type = "button"; button.textContent = set.name; button.setAttribute("aria-pressed", i === 0);
      button.addEventListener("click", () => {
        state.set = i;
        [...$("sets").children].forEach((other, k) => other.setAttribute("aria-pressed", k === i));
        drawAll();
      });
      $("sets").append(button);
    });
  }
  applyTheme();
  drawAll();
  document.body.dataset.at = percent[state.at];
  document.body.dataset.ready = "yes";
})().catch((error) => {
  const box = document.getElementById("failure");
  box.textContent = `The page could not be drawn: ${error.message}`;
  box.hidden = false;
});
