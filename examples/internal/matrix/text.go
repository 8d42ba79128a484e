// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Legend explains the table that Text returns.
const Legend = `Rows are senders, columns are receivers. A column has the number of its receiver's row.
If both have IPv4 and IPv6, a cell has the mark of IPv4, then the mark of IPv6.
  .  allowed   X  denied   ~  some addresses or ports only   -  policy does not apply   (empty: no flow)
`

// Style has the options of Text.
type Style struct {
	// Width is the maximum number of columns. A wider table is divided into parts, one below the
	// other. 0 means no limit.
	Width int
	// Title is the line above the table. Default: the port.
	Title string
}

// longestName is the maximum number of characters of a name in a row. Longer names are listed below
// the table.
const longestName = 60

// Text returns the table. Columns have numbers instead of names, so that long names do not make the
// table wide. Some names are not in the rows, but below the table: long names, and the names of
// pods that share a row.
func (m *Matrix) Text(style Style) string {
	digits := len(fmt.Sprint(len(m.Groups)))
	names := make([]string, len(m.Groups))
	wide := 0
	for i, g := range m.Groups {
		names[i] = fmt.Sprintf("%*d %s", digits, i+1, title(g))
		wide = max(wide, len([]rune(names[i])))
	}
	marks := make([]string, len(m.cells))
	cell := digits
	two := m.bothFamilies()
	for i, c := range m.cells {
		marks[i] = c.marks(two)
		cell = max(cell, len(marks[i]))
	}
	at := 1 << 30
	if style.Width > 0 {
		at = max(1, (style.Width-wide-1)/(cell+1))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", cmp.Or(style.Title, m.Port.String()))
	n := len(m.Groups)
	for first := 0; first < n; first += at {
		end := min(n, first+at)
		line := strings.Repeat(" ", wide+1)
		for column := first; column < end; column++ {
			line += fmt.Sprintf(" %-*d", cell, column+1)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
		for row := range n {
			line := names[row] + strings.Repeat(" ", wide-len([]rune(names[row]))+1)
			for column := first; column < end; column++ {
				line += fmt.Sprintf(" %-*s", cell, marks[row*n+column])
			}
			out.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if end < n {
			out.WriteString("\n")
		}
	}
	for i, g := range m.Groups {
		if title(g) != g[0].Name {
			var all []string
			for _, p := range g {
				all = append(all, p.Name)
			}
			fmt.Fprintf(&out, "%*d: %s\n", digits, i+1, strings.Join(all, " "))
		}
	}
	return out.String()
}

// title returns the name of a row.
func title(g probe.Group) string {
	more := ""
	if len(g) > 1 {
		more = fmt.Sprintf(" +%d", len(g)-1)
	}
	name := []rune(g[0].Name)
	if room := longestName - len(more); len(name) > room {
		half := (room - 1) / 2 // keep both ends: the namespace, and the part that differs between replicas
		name = append(append(append([]rune{}, name[:half]...), '…'), name[len(name)-(room-1-half):]...)
	}
	return string(name) + more
}

// bothFamilies reports whether there are cells with IPv4 and cells with IPv6. If not, a cell needs
// only one character.
func (m *Matrix) bothFamilies() bool {
	four, six := false, false
	for _, c := range m.cells {
		four, six = four || c.IPv4 != "", six || c.IPv6 != ""
	}
	return four && six
}

func (c Cell) marks(two bool) string {
	switch {
	case c == Cell{}:
		return ""
	case two:
		return mark(c.IPv4) + mark(c.IPv6)
	case c.IPv4 != "":
		return mark(c.IPv4)
	}
	return mark(c.IPv6)
}

func mark(o verdict.Outcome) string {
	switch o {
	case verdict.Allow:
		return "."
	case verdict.Deny:
		return "X"
	case verdict.NotApplicable:
		return "-"
	case Mixed:
		return "~"
	}
	return " "
}
