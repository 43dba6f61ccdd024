"use strict";
/** The density of one object: clicked, searched for, or drawn at random. */
const OneObject = (tools) => {
  const { $, state, current, css, axis, layout, line, number, escape, draw } = tools;
  const MOST = 12; // Gaussians drawn by themselves
  const bell = ({ weight, mean, std }, z) => weight * Math.exp(-.5 * ((z - mean) / std) ** 2) / (std * Math.sqrt(2 * Math.PI));
  const shown = (v, digits) => v === null || v === undefined ? "–" : v.toFixed(digits);

  const prepare = (set) => { set.densities ??= Packed.densities(set.objects.density, set.objects.id.length); return set.densities; };

  /** What is known of an object, line by line. */
  const facts = (set, i) => {
    const o = set.objects, rows = [`<b>${escape(o.id[i])}</b>`];
    if (set.truth) rows.push(`z_spec ${shown(o.z_spec[i], 4)}`);
    rows.push(`z_phot ${shown(o.z_phot[i], 4)} ± ${shown(o.std[i], 4)}`);
    for (const [name, values] of Object.entries(o.columns ?? {})) {
      const error = o.errors?.[name]?.[i];
      rows.push(`${escape(name)} ${shown(values[i], 3)}${error === null || error === undefined ? "" : ` ± ${shown(error, 3)}`}`);
    }
    return rows;
  };
  const flagsOf = (set, i) => {
    const bits = set.objects.flags?.[i];
    const names = (set.cautions.flags?.rows ?? []).filter(([bit]) => bits & bit).map(([, name]) => name);
    return bits === undefined ? [] : [names.length ? `flags ${names.join(", ")}` : "no flags"];
  };

  /** Points dense enough for the narrowest Gaussian, where there is any probability. */
  const gridOf = (gaussians, lower, marks) => {
    const large = gaussians.filter((g) => g.weight > .01 * gaussians[0].weight);
    let low = Math.min(...marks, ...large.map((g) => g.mean - 3.5 * g.std)), high = Math.max(...marks, ...large.map((g) => g.mean + 3.5 * g.std));
    const margin = .03 * (high - low);
    low = Math.max(low - margin, lower ?? -Infinity); high += margin;
    const grid = Array.from({ length: 161 }, (_, i) => low + i * (high - low) / 160);
    for (const g of large) for (let t = -4; t <= 4; t += .25) grid.push(g.mean + t * g.std);
    return grid.filter((z) => z >= low && z <= high).sort((a, b) => a - b);
  };

  const make = () => {
    const set = current(), i = state.object = Math.min(state.object, set.objects.id.length - 1), density = prepare(set)[i], o = set.objects;
    const marks = set.truth ? [["z_spec", o.z_spec[i], css("orange"), "dash"]] : [];
    marks.push(["z_phot", o.z_phot[i], css("ink"), "solid"]);
    const traces = [];
    let x = density.x, y = density.y;
    if (density.gaussians) {
      x = gridOf(density.gaussians, density.lower, marks.map(([, z]) => z));
      y = x.map((z) => density.gaussians.reduce((sum, g) => sum + bell(g, z), 0));
    }
    traces.push(line(x, y, css("blue"), { name: "p(z)", fill: "tozeroy", fillcolor: css("fill"), hoverinfo: "all", hovertemplate: "z %{x:.3f}: %{y:.3f}<extra></extra>" }));
    if (density.gaussians?.length > 1) density.gaussians.slice(0, MOST).forEach((g, k) => traces.push(line(x, x.map((z) => bell(g, z)), css("grey"),
      { name: "components", legendgroup: "parts", showlegend: k === 0, line: { color: css("grey"), width: 1 } })));
    const top = 1.06 * Math.max(...y);
    for (const [name, z, colour, dash] of marks) traces.push(line([z, z], [0, top], colour, { name: `${name} ${shown(z, 3)}`, line: { color: colour, width: 1.6, dash } }));
    const left = density.gaussians?.length > MOST ? ` The ${MOST} largest of ${density.gaussians.length} Gaussians are drawn.` : "";
    $("pz-note").innerHTML = `${facts(set, i).concat(flagsOf(set, i)).join(" · ")}.${left}`;
    return [traces, layout(axis("redshift", { range: [x[0], x[x.length - 1]] }), axis("p(z)", { range: [0, top] }),
      { showlegend: true, margin: { l: 52, r: 12, t: 44, b: 42 }, uirevision: `${state.set} ${i}` })];
  };

  const show = (i) => { state.object = i; draw("pz"); };
  const nearest = (x, y) => {
    const o = current().objects, { x: xs, y: ys } = current().cells;
    let best = 0, least = Infinity;
    o.x.forEach((v, i) => {
      const d = ((v - x) / (xs[1] - xs[0])) ** 2 + ((o.y[i] - y) / (ys[1] - ys[0])) ** 2;
      if (d < least) { least = d; best = i; }
    });
    return best;
  };
  const find = (text) => {
    const set = current(), i = set.objects.id.indexOf(text.trim());
    if (i >= 0) { show(i); return; }
    $("pz-note").textContent = `No object “${text}” among the ${number(set.objects.id.length)} of ${number(set.n)} whose densities this page holds` +
      (set.objects.id.length < set.n ? "; gpzed report --objects adds others." : ".");
  };
  const random = (outliers) => {
    const o = current().objects, rows = o.id.map((_, i) => i).filter((i) => i !== state.object && (!outliers || o.outlier[i]));
    if (rows.length) show(rows[Math.floor(Math.random() * rows.length)]);
  };
  /** The first object to show: an outlier, from which there is most to learn. */
  const first = (set) => Math.max(0, set.objects.outlier.indexOf(1));

  return { make, facts, show, nearest, find, random, first };
};
