"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  if (typeof DecompressionStream === "undefined") throw new Error("it needs a browser of 2023 or later: yours cannot unpack its data.");
  const library = document.createElement("script");
  library.textContent = await Packed.inflate($("packed-plotly").textContent);
  document.head.append(library);
  const page = JSON.parse(await Packed.inflate($("packed-data").textContent));
  const percent = page.percent, last = percent.length - 1, sets = page.sets;

  /** Put points in the order in which the slider adds them, so that those kept are the first ones. */
  const sortPoints = (points) => {
    const order = points.position.map((_, i) => i).sort((a, b) => points.position[a] - points.position[b]);
    for (const key of ["x", "y", "z_phot", "std", "position", "outlier", "object"]) points[key] = order.map(((values) => (i) => values[i])(points[key]));
    points.first = percent.map((_, g) => { const end = points.position.findIndex((p) => p > g); return end < 0 ? order.length : end; });
  };
  for (const set of sets) {
    set.groups = Packed.cells(set.cells.objects, percent.length);
    set.sums = Packed.accumulate(Packed.floats(set.density.sums), set.density.grid.length);
    sortPoints(set.points);
  }

  // ---- state -----------------------------------------------------------------------------------------------------
  const state = { set: 0, at: last, colour: "count", metric: "rmse", by: "z_spec", byOutliers: "z_spec", trouble: "share", object: 0, spaceX: null, spaceY: null };
  const phone = matchMedia("(max-width: 760px)");
  const truth = sets.some((set) => set.truth), compare = sets.length > 1 && sets.every((set) => set.truth);
  const current = () => sets[state.set];
  const number = (n) => n.toLocaleString("en-US");
  const escape = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

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
    dragmode: phone.matches ? false : "zoom", uirevision: `${state.set}`, modebar: { bgcolor: "rgba(0,0,0,0)", color: css("grey"), activecolor: css("accent") },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 12 } }, ...more,
  });
  const config = () => ({ responsive: true, displaylogo: false, displayModeBar: phone.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], doubleClick: "reset" });
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
  const line = (x, y, colour, more = {}) =>
    ({ type: "scatter", mode: "lines", x, y, line: { color: colour, width: 2 }, hoverinfo: "skip", ...more });

  // ---- cards -----------------------------------------------------------------------------------------------------
  const card = (id, title, classes = "", tools = "", note = "", more = "") => {
    const box = document.createElement("article");
    box.className = `card ${classes}`;
    box.innerHTML = `<div class="title"><h2>${title}</h2><div class="tools">${tools}</div></div>` +
      `<div id="${id}" class="plot" role="img" aria-label="${title}"></div><p class="quiet" id="${id}-note">${note}</p>${more}`;
    $("cards").append(box);
  };
  const select = (id, label, options = []) => `<select id="${id}" aria-label="${label}">${options.map(([value, text]) =>
    `<option value="${escape(value)}">${escape(text)}</option>`).join("")}</select>`;
  card("scatter", truth ? "Photometric against true redshift" : "Predicted uncertainty against redshift", "tall",
    select("colour", "Colour of the cells", [["count", "by number"], ["std", "by uncertainty"]]));
  card("nz", "Distribution of redshifts", "", "", "Histogram of the objects kept, and the sum of their predicted densities.");
  card("pz", "p(z) of one object", "", `<input id="find" type="search" list="ids" placeholder="find an id" aria-label="Find an object by its id">` +
    `<datalist id="ids"></datalist><button id="random" type="button">random</button>${truth ? '<button id="outlier" type="button">outlier</button>' : ""}`);
  if (truth) {
    card("rejection", "Score of the objects kept", "third fill", select("metric", "Metric", page.headings.filter(([name]) => name !== "n")),
      "Objects are kept by predicted variance, the smallest first.");
    card("bias", "Bias", "third fill", select("by", "Bins of"), "Mean of (z_phot − z_spec) / (1 + z_spec) of the objects kept, with its standard error: positive where redshifts are too high.");
    card("outliers", "Outliers", "third fill", select("trouble", "What to show", [["share", "share"], ["rmse", "RMSE of Δz/(1+z)"]]) + select("by-outliers", "Bins of"),
      "Share of the objects kept with |z_phot − z_spec| / (1 + z_spec) of 0.15 or more, with its standard error.");
    card("pit", "Probability integral transform", "third fill", "", "Histogram less the flat one of true uncertainties; 95 % of their bars lie in the band. Horns at both ends: uncertainties too small.");
    card("reliability", "Reliability of intervals", "third fill", "", "Share of objects in central intervals less what they promise, in the band for true uncertainties. Below zero: intervals too narrow.");
  } else {
    card("limits", "Uncertainty against objects kept", "fill", "", "Largest predicted standard deviation among the objects kept, and the RMSE of Δz/(1+z) that their variances promise.");
  }
  card("coverage", "Flags and coverage", truth ? "third fill" : "fill", "", "", `<div class="scroll"><table id="flags"></table></div>`);
  card("tomography", "n(z) in tomographic bins", "fill");
  card("space", "Colours of training and target", "fill", select("space-x", "Horizontal axis") + select("space-y", "Vertical axis"));
  card("parts", "Where the uncertainty comes from", truth ? "fill" : "full", "",
    "All objects, in bins of redshift: median (line), quartiles (box) and 5–95 % (whiskers). More spectra reduce the model's part, better photometry the noise.");
  if (truth) {
    const box = document.createElement("article");
    box.className = "card";
    box.innerHTML = `<div class="title"><h2>Scores</h2></div><div class="scroll"><table id="scores"></table></div>` +
      `<p class="quiet">As <code>gpzed evaluate</code> gives them for the objects kept; dz = z_phot − z_spec.</p>`;
    $("cards").append(box);
  }

  // ---- numbers ---------------------------------------------------------------------------------------------------
  const TILES = { rmse: ["RMSE/(1+z)", "root mean square of (z_phot − z_spec) / (1 + z_spec)"], "fr_0.15": ["% within 0.15", "FR0.15: objects with |z_phot − z_spec| / (1 + z_spec) below 0.15"],
    "fr_0.05": ["% within 0.05", "FR0.05: objects with |z_phot − z_spec| / (1 + z_spec) below 0.05"], bias: ["bias Δz/(1+z)", "mean of (z_phot − z_spec) / (1 + z_spec)"],
    sigma_nmad: ["σ NMAD", "1.4826 times the median absolute deviation of (z_phot − z_spec) / (1 + z_spec)"], mll: ["mean ln p(z)", "MLL: mean log density at the true redshift"],
    coverage_68: ["in 68 %", "share of objects whose true redshift lies in the central 68 % interval"] };
  const drawNumbers = () => {
    const set = current(), at = state.at;
    $("percent").textContent = `${percent[at]} %`;
    $("keep").value = percent[at];
    $("limit").textContent = `${number(set.kept[at])} of ${number(set.n)} objects, σ up to ${set.max_std[at].toPrecision(3)}`;
    const tiles = set.truth
      ? Object.entries(TILES).map(([name, [label, title]]) => [name, label, set.scores.shown[name][at], `all: ${set.scores.shown[name][last]}`, title])
      : [["expected_rmse", "promised RMSE/(1+z)", set.expected_rmse[at].toFixed(4), `all: ${set.expected_rmse[last].toFixed(4)}`, "RMSE of Δz/(1+z) that the predicted variances promise"],
        ["max_std", "largest σ", set.max_std[at].toFixed(4), `all: ${set.max_std[last].toFixed(4)}`, "largest predicted standard deviation"]];
    tiles.push(["n", "objects", number(set.kept[at]), `all: ${number(set.n)}`, "objects kept"]);
    $("tiles").innerHTML = tiles.map(([name, label, value, all, title]) =>
      `<div class="tile" data-metric="${name}" title="${escape(title)}"><span>${label}</span><b>${value}</b><small>${all}</small></div>`).join("");
    if (!truth) return;
    const columns = compare ? sets.map((one) => [one.name, one.scores.shown, at])
      : set.truth ? [[`${percent[at]} % kept`, set.scores.shown, at], ["all", set.scores.shown, last]] : [];
    $("scores").innerHTML = `<tr><th></th>${columns.map(([name]) => `<th>${escape(name)}</th>`).join("")}</tr>` +
      page.headings.map(([name, heading]) => `<tr data-metric="${name}"><td>${heading}</td>${columns.map(([, shown, i]) => `<td>${shown[name][i]}</td>`).join("")}</tr>`).join("");
  };

  // ---- drawing ---------------------------------------------------------------------------------------------------
  const shownRanges = {};
  const rangeOf = (shape) => `${shape.xaxis.range},${shape.yaxis.range}`;
  const draw = (id) => {
    const made = makers[id](false);
    if (made === null) return;
    shownRanges[id] = rangeOf(made[1]); // before plotly.js writes its own into it
    Plotly.react(id, ...made, config());
    Painter.clear($(id));
  };
  const tools = { $, page, state, sets, percent, last, current, compare, truth, css, theme, axis, layout, line, number, escape, fit, series, scale, viridis, draw };
  const one = OneObject(tools);
  const makers = { ...Figures({ ...tools, facts: one.facts }), pz: one.make };
  const STILL = ["parts", "tomography", "coverage", "space", "pz"];
  /** Names of the figures that have something to show; those that follow the slider first. */
  const shownFigures = () => Object.keys(makers).filter((id) => $(id) && !$(id).closest(".card").hidden);
  const movingFigures = () => shownFigures().filter((id) => !STILL.includes(id));
  /** Show a figure as the slider wants it at once, over what plotly.js drew; drawn anew only where an axis has to change. */
  const paint = (id) => {
    const [traces, shape] = makers[id](true);
    if (rangeOf(shape) !== shownRanges[id]) draw(id);
    else Painter.paint($(id), traces, shape.shapes);
  };
  const hasNothing = (set) => ({ rejection: !set.truth && !compare, bias: !set.truth, outliers: !set.truth, pit: !set.truth, reliability: !set.truth,
    coverage: !set.cautions.flags && !set.cautions.coverage, space: !set.colours, tomography: set.tomography.bins.length === 0 });
  const drawAll = () => {
    const set = current();
    $("about").textContent = [set.about.file, `${number(set.n)} objects`, ...(set.about.facts ?? [])].filter(Boolean).join(" · ");
    for (const [id, nothing] of Object.entries(hasNothing(set))) { const box = $(id)?.closest(".card"); if (box) box.hidden = nothing; }
    for (const [id, key] of [["by", "by"], ["by-outliers", "byOutliers"]]) {
      if (!$(id) || !set.truth) continue;
      if (!(state[key] in set.trends)) state[key] = "z_spec";
      $(id).innerHTML = Object.keys(set.trends).map((name) => `<option value="${escape(name)}">by ${escape(name)}</option>`).join("");
      $(id).value = state[key];
    }
    $("ids").innerHTML = set.objects.id.map((id) => `<option value="${escape(id)}">`).join("");
    drawNumbers();
    for (const id of shownFigures()) draw(id);
    for (const id of shownFigures()) { // whose card grew with those beside it
      if (Math.abs($(id).clientHeight - ($(id)._fullLayout?.height ?? $(id).clientHeight)) > 2) Plotly.Plots.resize(id);
    }
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
  for (const [id, key, figure] of [["colour", "colour", "scatter"], ["metric", "metric", "rejection"], ["by", "by", "bias"], ["by-outliers", "byOutliers", "outliers"],
    ["trouble", "trouble", "outliers"]]) $(id)?.addEventListener("change", (event) => { state[key] = event.target.value; draw(figure); });
  for (const [id, key] of [["space-x", "spaceX"], ["space-y", "spaceY"]]) $(id).addEventListener("change", (event) => { state[key] = +event.target.value; draw("space"); });
  $("find").addEventListener("change", (event) => { if (event.target.value) one.find(event.target.value); });
  $("random").addEventListener("click", () => one.random(false));
  $("outlier")?.addEventListener("click", () => one.random(true));
  $("theme").addEventListener("click", () => { chosenTheme = theme() === "dark" ? "light" : "dark"; applyTheme(); drawAll(); });
  preferred.addEventListener("change", () => { applyTheme(); drawAll(); });
  phone.addEventListener("change", () => drawAll());
  const open = (i) => { state.set = i; state.object = one.first(sets[i]); };
  if (sets.length > 1) {
    $("sets").hidden = false;
    sets.forEach((set, i) => {
      const button = document.createElement("button");
      button.type = "button"; button.textContent = set.name; button.setAttribute("aria-pressed", i === 0);
      button.addEventListener("click", () => {
        open(i);
        [...$("sets").children].forEach((other, k) => other.setAttribute("aria-pressed", k === i));
        drawAll();
      });
      $("sets").append(button);
    });
  }
  applyTheme();
  open(0);
  drawAll();
  $("scatter").on("plotly_click", ({ points: [point] }) => {
    const told = point.data.name === "points" ? current().points.object[point.pointIndex] : -1;
    one.show(told >= 0 ? told : one.nearest(point.x, point.y));
  });
  document.body.dataset.at = percent[state.at];
  document.body.dataset.ready = "yes";
})().catch((error) => {
  const box = document.getElementById("failure");
  box.textContent = `The page could not be drawn: ${error.message}`;
  box.hidden = false;
});
