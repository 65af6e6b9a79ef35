"""The look of a report's page: one column of cards, tables that stack on a phone."""

LIGHT_TOKENS = (
    "--ink:#1c2128;--muted:#5d6773;--line:#e3e7ec;--ground:#f5f6f8;--surface:#ffffff;"
    "--accent:#0b66a3;--good:#0d6b4f;--bad:#b3261e;--pending:#b9c0c9"
)
DARK_RULES = ".in-light{display:none}.in-dark{display:block}"
DARK_TOKENS = (
    "--ink:#e8ecf1;--muted:#9aa6b4;--line:#2c343e;--ground:#0e1217;--surface:#161b22;"
    "--accent:#5bb0e8;--good:#4cc79b;--bad:#ff8a80;--pending:#56616e"
)

STYLE = """
*{box-sizing:border-box}
body{margin:0 auto;padding:40px 20px 56px;max-width:1136px;background:var(--ground);
  color:var(--ink);font:15px/1.5 "Helvetica Neue",Arial,system-ui,sans-serif;
  font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}
.defs{position:absolute;width:0;height:0}
.hatch-ground{fill:var(--surface)}
.hatch-line{fill:var(--pending)}
header{margin:0 0 24px}
.kicker{margin:0;color:var(--accent);font-size:12px;font-weight:600;letter-spacing:.08em;
  text-transform:uppercase}
h1{margin:4px 0 6px;font-size:32px;line-height:1.15;letter-spacing:-.02em;overflow-wrap:anywhere}
.facts{margin:0;color:var(--muted);overflow-wrap:anywhere}
h2{margin:0 0 2px;font-size:16px;line-height:1.3;overflow-wrap:anywhere}
.caption{margin:0 0 12px;color:var(--muted);font-size:13px}
.card{margin:0 0 16px;padding:20px 24px 18px;background:var(--surface);border:1px solid var(--line);
  border-radius:10px;min-width:0}
.pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 16px}
.tiles{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));margin:0 0 16px;
  background:var(--surface);border:1px solid var(--line);border-radius:10px;overflow:hidden}
.tile{padding:14px 24px 12px;border-right:1px solid var(--line);border-bottom:1px solid var(--line);
  margin:0 -1px -1px 0}
.tile dt{color:var(--muted);font-size:12px}
.tile dd{margin:0;font-size:22px;font-weight:600;letter-spacing:-.01em}
.tile p{margin:0;color:var(--muted);font-size:12px}
.notes{border-left:3px solid var(--bad)}
.notes ul{margin:6px 0 0;padding-left:18px}
/* An image in pixels stays in pixels. */
.chart image{image-rendering:pixelated}
.chart svg{display:block;max-width:100%;height:auto}
.chart svg{overflow:visible}
.chart svg [aria-roledescription="bar"][fill="#b9c0c9"]{fill:url(#hatch);stroke:var(--pending)}
.chart svg .role-legend-symbol [fill="#b9c0c9"]{fill:url(#hatch)}
.chart svg .role-mark path:hover{opacity:.75}
.narrow,.in-dark{display:none}
.empty{color:var(--muted)}
table{width:100%;border-collapse:collapse;font-size:13px;line-height:1.4;margin-top:8px}
th,td{padding:8px 10px 8px 0;text-align:left;vertical-align:top;border-top:1px solid var(--line);
  overflow-wrap:anywhere}
thead th{border-top:0;color:var(--muted);font-size:12px;font-weight:500;white-space:nowrap}
tbody th{font-weight:600;min-width:96px;max-width:190px}
.number{text-align:right;white-space:nowrap;padding-right:18px}
tr.rejected td,tr.rejected th{color:var(--muted)}
.badge{display:inline-block;padding:0 7px;border:1px solid currentColor;border-radius:9px;
  font-size:11px;line-height:16px;color:var(--muted)}
.badge.done{color:var(--good)}
.badge.failed{color:var(--bad)}
.badge.training{color:var(--accent)}
a{color:var(--accent)}
details{margin-top:8px}
summary{cursor:pointer;color:var(--accent);font-size:13px}
.plain{list-style:none;margin:0;padding:0}
.plain p{margin:10px 0 2px;color:var(--muted);font-size:13px}
pre{margin:0;padding:10px 12px;border-radius:6px;background:var(--ground);font-size:12px;
  white-space:pre-wrap;overflow-wrap:anywhere}
del{color:var(--bad);text-decoration:none}
ins{color:var(--good);text-decoration:none}
footer{margin-top:24px;color:var(--muted);font-size:12px}
@media (max-width:760px){
  body{padding:24px 12px 40px}
  h1{font-size:26px}
  .card{padding:16px 18px}
  .pair{grid-template-columns:minmax(0,1fr)}
  .tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
  .tile{padding:10px 18px}
  .tile dd{font-size:19px}
  .wide{display:none}
  .narrow{display:block}
  .stacking thead{display:none}
  .stacking tr{display:block;padding:12px 0;border-top:1px solid var(--line)}
  .stacking tr:first-child{border-top:0}
  .stacking th,.stacking td{display:block;max-width:none;padding:1px 0;border:0;text-align:left;
    white-space:normal}
  .stacking td{padding-left:84px}
  .stacking td.nothing{display:none}
  .stacking td::before{content:attr(data-label);display:inline-block;width:84px;
    margin-left:-84px;color:var(--muted)}
}
@media print{body{background:none;padding:0}.card,.tiles{break-inside:avoid}}
"""
