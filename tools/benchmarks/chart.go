// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The places of a chart, in the units of its view.
const (
	chartWidth = 640
	barLeft    = 110
	barRight   = 440 // the text of the figure is to the right of the bar
	rowHeight  = 26
	headHeight = 62
)

// style is that of the other pictures, with a color for each kind of bar. Dark pages have a style of their own.
const style = `<style>
  .bg{fill:#fff} .s0{fill:#4f63c6} .s1{fill:#15803d} .peer{fill:#b45309} .grid{stroke:#d1d5db} .target{stroke:#1f2937}
  text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:14px;fill:#1f2937}
  .t{font-weight:600;font-size:15px} .s{font-size:12.5px;fill:#4b5563} .e{text-anchor:end} .m{text-anchor:middle}
  @media (prefers-color-scheme:dark){
    .bg{fill:#1b1b1f} .s0{fill:#8ea0ff} .s1{fill:#4ade80} .peer{fill:#f0a94b}
    .grid{stroke:#3f3f46} .target{stroke:#e5e7eb} text{fill:#e5e7eb} .s{fill:#b6bdc9}
  }
</style>
`

// axis maps values to places.
type axis struct {
	log       bool
	low, high float64
}

// newAxis returns an axis for all bars: from zero, or, with a logarithmic scale, from the power of ten below the least.
func newAxis(groups []group, log bool) axis {
	a := axis{log: log, low: math.Inf(1)}
	for _, g := range groups {
		for _, b := range g.bars {
			a.high = max(a.high, b.value, b.target)
			for _, v := range []float64{b.value, b.target} {
				if v > 0 {
					a.low = min(a.low, v)
				}
			}
		}
	}
	if !log || math.IsInf(a.low, 1) {
		return axis{high: max(a.high, math.SmallestNonzeroFloat64)}
	}
	a.low = math.Pow(10, math.Floor(math.Log10(a.low)))
	a.high = math.Pow(10, math.Ceil(math.Log10(a.high)))
	if a.low == a.high {
		a.high *= 10
	}
	return a
}

func (a axis) x(v float64) float64 {
	share := v / a.high
	if a.log {
		share = max(0, math.Log(v/a.low)/math.Log(a.high/a.low))
	}
	return barLeft + share*(barRight-barLeft)
}

// svg draws a chart. With a logarithmic scale, a figure is a dot on a line, because the length of a bar would be
// read as the value.
func (c *Chart) svg(groups []group) string {
	a := newAxis(groups, c.Log)
	var body strings.Builder
	y := float64(headHeight)
	subtitle := "shorter is better"
	if c.Log {
		subtitle = "logarithmic scale, further left is better"
	}
	for _, g := range groups {
		fmt.Fprintf(&body, "<text x=\"24\" y=\"%.0f\">%s</text>\n", y+20, html.EscapeString(g.title))
		y += rowHeight + 2
		for _, b := range g.bars {
			body.WriteString(drawBar(a, b, y))
			y += rowHeight
		}
		y += 6
	}
	height := y + 14
	if c.Log {
		height += 20
	}
	var s strings.Builder
	fmt.Fprintf(&s, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" ", chartWidth, height)
	s.WriteString("role=\"img\" aria-labelledby=\"title desc\">\n")
	fmt.Fprintf(&s, "<title id=\"title\">%s</title>\n", html.EscapeString(c.Title))
	fmt.Fprintf(&s, "<desc id=\"desc\">%s</desc>\n", html.EscapeString(describe(groups)))
	s.WriteString("<!-- SPDX-License-Identifier: Apache-2.0 -->\n" + style)
	fmt.Fprintf(&s, "<rect class=\"bg\" width=\"%d\" height=\"%.0f\" rx=\"12\"/>\n", chartWidth, height)
	fmt.Fprintf(&s, "<text class=\"t\" x=\"24\" y=\"34\">%s</text>\n", html.EscapeString(c.Title))
	fmt.Fprintf(&s, "<text class=\"s\" x=\"24\" y=\"54\">%s</text>\n", subtitle)
	if c.Log {
		s.WriteString(c.grid(a, y))
	}
	return s.String() + body.String() + "</svg>\n"
}

// grid draws a line for each power of ten.
func (c *Chart) grid(a axis, bottom float64) string {
	var s strings.Builder
	unit := c.Columns[0].Unit
	for v := a.low; v <= a.high*1.001; v *= 10 {
		fmt.Fprintf(&s, "<path class=\"grid\" d=\"M%.1f %d V%.0f\"/>\n", a.x(v), headHeight, bottom)
		fmt.Fprintf(&s, "<text class=\"s m\" x=\"%.1f\" y=\"%.0f\">%s</text>\n", a.x(v), bottom+16, short(unit, v))
	}
	return s.String()
}

// short returns a round value, as "10 µs".
func short(unit string, v float64) string {
	text := format(unit, v)
	number, rest, _ := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSpace(number + " " + rest)
}

func drawBar(a axis, b bar, y float64) string {
	var s strings.Builder
	end := a.x(b.value)
	fmt.Fprintf(&s, "<text class=\"s e\" x=\"%d\" y=\"%.1f\">%s</text>\n", barLeft-10, y+14, html.EscapeString(b.label))
	textAt := end
	if a.log {
		fmt.Fprintf(&s, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"2\"/>\n",
			b.class, barLeft, y+9, end-barLeft)
		fmt.Fprintf(&s, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>\n", b.class, end, y+10)
		textAt += 6
	} else {
		fmt.Fprintf(&s, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"18\" rx=\"3\"/>\n",
			b.class, barLeft, y+1, max(end-barLeft, 1))
	}
	if b.target > 0 {
		x := a.x(b.target)
		fmt.Fprintf(&s, "<path class=\"target\" stroke-width=\"2\" d=\"M%.1f %.1f v22\"/>\n", x, y-1)
		textAt = max(textAt, x)
	}
	fmt.Fprintf(&s, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", textAt+8, y+15, html.EscapeString(b.text))
	return s.String()
}
