"use strict";
/** The figures of the page: each function returns traces and layout for plotly.js, at the position of the slider. */
const Figures = (tools) => {
  const { $, page, state, sets, percent, last, current, compare, css, axis, layout, line, number, fit, series, escape, scale, viridis, facts } = tools;
  const legend = { showlegend: true, margin: { l: 58, r: 12, t: 26, b: 42 } };
  const centres = ([low, high], side) => Array.from({ length: side }, (_, i) => low + (i + .5) * (high - low) / side);
  const bar = (title) => ({ orientation: "h", y: 1, yanchor: "bottom", x: .5, len: .8, thickness: 9, outlinewidth: 0, ypad: 4,
    tickfont: { size: 11 }, title: { text: title, side: "top", font: { size: 11.5 } } });
  const here = () => ({ type: "line", x0: percent[state.at], x1: percent[state.at], yref: "paper", y0: 0, y1: 1, line: { color: css("grey"), width: 1, dash: "dot" } });
  const level = (from, to, y) => line([from, to], [y, y], css("grey"), { line: { color: css("grey"), width: 1 } });

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

  const pointText = (set, i) => {
    const p = set.points;
    if (p.object[i] >= 0) return facts(set, p.object[i]).join("<br>");
    return `${set.truth ? `z_spec ${p.x[i].toFixed(4)}<br>` : ""}z_phot ${p.z_phot[i].toFixed(4)} ± ${p.std[i].toFixed(4)}`;
  };

  const scatter = (moving) => {
    updateMap();
    const set = current(), { side, x, y } = set.cells, traces = [], p = set.points, n = p.first[state.at];
    if (!p.all) traces.push(cellTrace(set, moving));
    $("colour").hidden = p.all;
    set.texts ??= p.x.map((_, i) => pointText(set, i));
    const colours = p.all
      ? { color: p.std.slice(0, n).map(Math.log10), colorscale: viridis, cmin: set.cells.log_std[0], cmax: set.cells.log_std[last],
          colorbar: bar("log₁₀ σ") }
      : { color: css("orange") };
    traces.push({
      type: "scatter", mode: "markers", name: "points", x: p.x.slice(0, n), y: p.y.slice(0, n), text: set.texts.slice(0, n),
      table: p.all && moving ? Painter.palette(viridis) : undefined, hovertemplate: "%{text}<extra></extra>",
      marker: { size: p.all ? (set.n > 1500 ? 3.5 : 5) : 4, opacity: p.all ? .85 : .75, line: { width: 0 }, ...colours },
    });
    if (set.truth) {
      traces.push(line(x, x, css("ink"), { line: { color: css("ink"), width: 1 } }));
      for (const sign of [-1, 1]) {
        traces.push(line(x, x.map((v) => v + sign * .15 * (1 + v)), css("quiet"), { line: { color: css("quiet"), width: 1, dash: "dash" } }));
      }
    }
    const top = { margin: { l: 52, r: 14, t: 58, b: 42 } };
    const shape = set.truth
      ? layout(axis("spectroscopic redshift", { range: x, constrain: "domain" }), axis("photometric redshift", { range: y, constrain: "domain", scaleanchor: "x" }), top)
      : layout(axis("photometric redshift", { range: x }), axis("log₁₀ of the predicted standard deviation", { range: y }), top);
    const outside = map.count[side * side], kept = p.outlier.slice(0, n).reduce((a, b) => a + b, 0);
    const all = p.all || p.n_outliers <= p.x.length;
    $("scatter-note").textContent = (set.truth
      ? `Dashed: error of 0.15 (1 + z). ${p.all ? "Points are objects" : "Orange: outliers beyond it"}` +
        (all ? `, ${number(kept)} of ${number(p.n_outliers)} outliers kept` : `, ${number(p.x.length)} of ${number(p.n_outliers)} drawn at random`) +
        "; click for p(z)."
      : `${p.all ? "Points are objects" : "Each cell counts objects"}; click for p(z).`) + (outside ? ` ${number(outside)} objects lie outside the frame.` : "");
    return [traces, shape];
  };

  const nz = () => {
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
      axis("n(z), normalised", { range }), { ...legend, margin: { l: 52, r: 12, t: 26, b: 42 } })];
  };

  const rejection = () => {
    const colours = series(), traces = [], heading = Object.fromEntries(page.headings)[state.metric];
    const used = compare ? sets : [current()];
    used.forEach((set, i) => {
      const y = set.scores.values[state.metric], shown = set.scores.shown[state.metric];
      traces.push(line(percent, y, colours[i % 5], { name: escape(set.name), hoverinfo: "all", text: shown,
        hovertemplate: `%{x} % kept: %{text}<extra>${compare ? escape(set.name) : ""}</extra>` }));
      traces.push({ type: "scatter", mode: "markers", x: [percent[state.at]], y: [y[state.at]], marker: { size: 9, color: colours[i % 5] },
        hoverinfo: "skip", showlegend: false });
    });
    return [traces, layout(axis("objects kept [%]", { range: [0, 101] }), axis(heading), { shapes: [here()], showlegend: compare,
      margin: { l: 58, r: 12, t: compare ? 26 : 8, b: 42 }, uirevision: state.metric })];
  };

  /** Sums over the objects kept in bins of redshift or magnitude, with at least five objects. */
  const trend = (set, by) => {
    const bins = set.trends[by], width = bins.edges.length - 1, size = width * percent.length;
    bins.sums ??= Object.fromEntries(["count", "outliers", "error", "square"].map((name) =>
      [name, Packed.accumulate(name === "count" || name === "outliers" ? Packed.counts(bins[name], size) : Packed.floats(bins[name]), width)]));
    const at = (name, b) => bins.sums[name][state.at * width + b], rows = [];
    for (let b = 0; b < width; b++) if (at("count", b) >= 5) rows.push(b);
    return { edges: bins.edges, x: rows.map((b) => (bins.edges[b] + bins.edges[b + 1]) / 2), rows, at };
  };
  const trendFigure = (by, { edges, x, rows, at }, title, y, error, format, base) => {
    const range = fit([-1, 1].flatMap((sign) => y.map((v, i) => Math.max(base ?? -Infinity, v + sign * error[i]))));
    return [[level(edges[0], edges[edges.length - 1], 0),
      { type: "scatter", mode: "lines+markers", x, y, text: rows.map((b) => number(at("count", b))), error_y: { array: error, color: css("blue"), thickness: 1.2, width: 2 },
        line: { color: css("blue"), width: 1.8 }, marker: { size: 6 }, hovertemplate: `${by} %{x:.2f}: %{y:${format}}<br>%{text} objects<extra></extra>` }],
    layout(axis(by, { range: [edges[0], edges[edges.length - 1]] }), axis(title, { range }), { uirevision: `${state.set} ${by}` })];
  };

  const bias = () => {
    const found = trend(current(), state.by), { rows, at } = found, mean = rows.map((b) => at("error", b) / at("count", b));
    const error = rows.map((b, i) => Math.sqrt(Math.max(at("square", b) / at("count", b) - mean[i] ** 2, 0) / at("count", b)));
    return trendFigure(state.by, found, "mean of Δz/(1+z)", mean, error, "+.4f");
  };

  const outliers = () => {
    const found = trend(current(), state.byOutliers), { rows, at } = found, n = rows.map((b) => at("count", b));
    if (state.trouble === "rmse") {
      const rms = rows.map((b, i) => Math.sqrt(at("square", b) / n[i]));
      return trendFigure(state.byOutliers, found, "RMSE of Δz/(1+z)", rms, rms.map((v, i) => v / Math.sqrt(2 * n[i])), ".4f", 0);
    }
    const share = rows.map((b, i) => at("outliers", b) / n[i]);
    return trendFigure(state.byOutliers, found, "share of outliers", share, share.map((p, i) => Math.sqrt(p * (1 - p) / n[i])), ".2%", 0);
  };

  const pit = () => {
    const set = current(), counts = set.pit.counts[state.at], n = set.kept[state.at], bins = counts.length;
    const error = 2 * Math.sqrt((bins - 1) / n), excess = counts.map((c) => c * bins / n - 1);
    return [[{ type: "bar", x: counts.map((_, i) => (i + .5) / bins), y: excess, width: 1 / bins, marker: { color: css("fill"), line: { color: css("blue"), width: 1.4 } },
      hovertemplate: "%{x:.3f}: %{y:+.3f}<extra></extra>" }],
    layout(axis("probability below the true redshift (PIT)", { range: [0, 1] }), axis("density − 1", { range: fit([...excess, error, -error]) }), { bargap: 0, shapes: [
      { type: "rect", x0: 0, x1: 1, y0: -error, y1: error, fillcolor: css("band"), line: { width: 0 }, layer: "above" },
      { type: "line", x0: 0, x1: 1, y0: 0, y1: 0, line: { color: css("ink"), width: 1 } }] })];
  };

  const reliability = () => {
    const set = current(), nominal = set.pit.nominal, n = set.kept[state.at], excess = set.pit.inside[state.at].map((v, i) => v / n - nominal[i]);
    const at = [0, ...nominal, 1], band = at.map((p) => 2 * Math.sqrt(p * (1 - p) / n));
    const area = (sign) => line(at, band.map((v) => sign * v), css("grey"), { fill: "tozeroy", fillcolor: css("band"), line: { color: css("grey"), width: 0 } });
    return [[area(1), area(-1), level(0, 1, 0),
      { type: "scatter", mode: "lines+markers", x: nominal, y: excess, line: { color: css("blue"), width: 1.8 }, marker: { size: 5 },
        hovertemplate: "%{x:.0%} interval: %{y:+.1%}<extra></extra>" }],
    layout(axis("nominal coverage of the central interval", { range: [0, 1] }), axis("actual − nominal coverage", { range: fit([...excess, ...band, ...band.map((v) => -v)]) }))];
  };

  const limits = () => {
    const set = current();
    return [[line(percent, set.max_std, css("blue"), { name: "largest σ", hovertemplate: "%{x} %: σ ≤ %{y:.4f}<extra></extra>" }),
      line(percent, set.expected_rmse, css("orange"), { name: "expected RMSE of Δz/(1+z)", hovertemplate: "%{x} %: RMSE %{y:.4f}<extra></extra>" })],
    layout(axis("objects kept [%]", { range: [0, 101] }), axis("redshift", { rangemode: "tozero" }), { ...legend, shapes: [here()] })];
  };

  const parts = () => {
    const set = current(), edges = set.parts.edges, colours = { model: css("blue"), noise: css("orange"), input: css("green") };
    const names = Object.keys(set.parts.boxes), width = edges[1] - edges[0];
    const traces = names.map((name, i) => {
      const box = set.parts.boxes[name], rows = box.median.map((_, b) => b).filter((b) => box.median[b] !== null);
      const pick = (values) => rows.map((b) => values[b]);
      return { type: "box", name, x: rows.map((b) => edges[b] + (i + .5) * width / names.length), lowerfence: pick(box.low), q1: pick(box.q1),
        median: pick(box.median), q3: pick(box.q3), upperfence: pick(box.high), width: .7 * width / names.length, line: { color: colours[name], width: 1.3 },
        hoverinfo: "y" };
    });
    return [traces, layout(axis(set.truth ? "spectroscopic redshift" : "photometric redshift", { range: [edges[0], edges[edges.length - 1]] }),
      axis("standard deviation", { type: "log", dtick: "D2" }), legend)];
  };

  const tomography = () => {
    const set = current(), { grid, bins } = set.tomography, traces = [], many = bins.length;
    const colour = (b) => `hsl(${Math.round(250 - 235 * b / Math.max(many - 1, 1))} 65% ${tools.theme() === "dark" ? 68 : 45}%)`;
    bins.forEach((bin, b) => {
      const name = `${bin.edges[0].toFixed(2)} – ${bin.edges[1].toFixed(2)}`;
      if (bin.truth) {
        const width = (grid[grid.length - 1] - grid[0]) / bin.truth.length;
        traces.push({ type: "scatter", mode: "lines", x: bin.truth.map((_, i) => grid[0] + (i + .5) * width), y: bin.truth, line: { shape: "hvh", width: 0 },
          fill: "tozeroy", fillcolor: colour(b).replace("hsl(", "hsla(").replace(")", " / .22)"), hoverinfo: "skip", showlegend: false });
      }
      traces.push(line(grid, bin.density, colour(b), { name, hoverinfo: "all", hovertemplate: `z %{x:.2f}: %{y:.2f}<extra>${name}</extra>` }));
    });
    const gaps = bins.filter((bin) => bin.truth).map((bin) => {
      const gap = bin.mean - bin.true_mean;
      return `${gap < 0 ? "−" : "+"}${Math.abs(gap).toFixed(4)} ± ${bin.true_error.toFixed(4)}`;
    });
    $("tomography-note").textContent = `All objects in ${many} bins of equal numbers in z_phot: sums of predicted densities` +
      (gaps.length ? `, filled the true redshifts. Mean redshift, predicted − true, and the error of the true one: ${gaps.join("; ")}.` : ".");
    return [traces, layout(axis("redshift", { range: [grid[0], grid[grid.length - 1]] }), axis("n(z), normalised", { rangemode: "tozero" }),
      { ...legend, margin: { l: 52, r: 12, t: 44, b: 42 } })];
  };

  const coverage = () => {
    const { flags, coverage: found } = current().cautions, n = current().n;
    const share = (count) => `${number(count)} (${(100 * count / n).toFixed(1)} %)`;
    $("flags").innerHTML = flags ? `<tr><th>flag</th><th>objects</th></tr><tr><td>none</td><td>${share(flags.none)}</td></tr>` + flags.rows.map(([bit, name, text, count]) =>
      `<tr title="${escape(text)}"><td>${bit} ${escape(name)}</td><td>${share(count)}</td></tr>`).join("") : "";
    if (!found) { $("coverage").hidden = true; return null; }
    $("coverage").hidden = false;
    const bins = found.counts.length, rmse = found.rmse_low === undefined || found.rmse_low === null ? "" : `, RMSE of Δz/(1+z) ${found.rmse_low} against ${found.rmse_other} of the others`;
    $("coverage-note").textContent = `Flat where training and target are alike. ${share(found.low)} objects are below ${found.limit}: little like them in training${rmse}.`;
    const y = found.counts.map((c) => c * bins / found.n);
    return [[{ type: "bar", x: y.map((_, i) => (i + .5) / bins), y, width: 1 / bins, marker: { color: css("fill"), line: { color: css("blue"), width: 1.4 } },
      hovertemplate: "coverage %{x:.2f}: %{y:.2f}<extra></extra>" }, level(0, 1, 1)],
    layout(axis("coverage by training rows", { range: [0, 1] }), axis("density", { range: fit(y) }), { bargap: 0 })];
  };

  /** Colours and one magnitude that the axes may show: name, and how to make it of the magnitudes of a row. */
  const axesOf = (set) => {
    const bands = set.colours.bands, made = bands.slice(1).map((band, j) => [`${bands[j]} − ${band}`, (m) => m[j] === null || m[j + 1] === null ? null : m[j] - m[j + 1]]);
    return made.concat(bands.map((band, j) => [band, (m) => m[j]]));
  };
  const rowsOf = (stored, width) => {
    if (!stored) return [];
    stored.rows ??= ((flat) => Array.from({ length: stored.n }, (_, i) => flat.slice(i * width, (i + 1) * width)))(Packed.shorts(stored.values, stored.range, 65534));
    return stored.rows;
  };
  const space = () => {
    const set = current(), options = axesOf(set), width = set.colours.bands.length, pick = (k) => options[Math.min(k, options.length - 1)];
    const [xName, xOf] = pick(state.spaceX ?? Math.min(1, width - 2)), [yName, yOf] = pick(state.spaceY ?? Math.min(2, width - 1));
    const cover = set.colours.coverage;
    const xy = (rows) => rows.map((m, i) => [xOf(m), yOf(m), i]).filter(([x, y]) => x !== null && y !== null);
    const target = xy(rowsOf(set.colours.target, width)), training = xy(rowsOf(set.colours.training, width));
    const trace = (points, name, colour, size, more = {}) => ({ type: "scatter", mode: "markers", name, x: points.map(([x]) => x), y: points.map(([, y]) => y),
      marker: { color: colour, size, opacity: .65, line: { width: 0 } }, hoverinfo: "skip", ...more });
    const range = (k) => {
      const values = target.concat(training).map((p) => p[k]).sort((a, b) => a - b), at = (q) => values[Math.floor(q * (values.length - 1))], margin = .08 * (at(.99) - at(.01));
      return [at(.01) - margin, at(.99) + margin];
    };
    const traces = [], isLow = ([, , i]) => cover && cover[i] !== null && cover[i] < .05;
    if (training.length) traces.push(trace(training, "training", css("blue"), 8, { marker: { color: css("blue"), size: 8, opacity: .16, line: { width: 0 } } }));
    traces.push(trace(target.filter((p) => !isLow(p)), "these objects", training.length ? css("orange") : css("blue"), 3));
    if (cover) traces.push(trace(target.filter(isLow), "coverage below 0.05", css("pink"), 5));
    const names = options.map(([name], k) => `<option value="${k}">${escape(name)}</option>`).join("");
    for (const [id, name] of [["space-x", xName], ["space-y", yName]]) { $(id).innerHTML = names; $(id).value = options.findIndex(([other]) => other === name); }
    $("space-note").textContent = (training.length ? "Blue: a sample of the training rows. Orange: one of these objects" : "A sample of these objects; gpzed report --training FILE adds the training rows") +
      (cover ? ". Where coverage is low, training has nothing like them." : ".");
    return [traces, layout(axis(xName, { range: range(0) }), axis(yName, { range: range(1) }), { ...legend, uirevision: `${state.set} ${xName} ${yName}` })];
  };

  return { scatter, nz, rejection, bias, outliers, pit, reliability, limits, parts, tomography, coverage, space };
};
