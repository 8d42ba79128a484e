// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Column is a destination of tests: a port of a party, or ICMP echo to it.
type Column struct {
	// To is the index of the party that is to be reached.
	To int
	// Protocol is TCP, UDP or ICMP. ICMP means echo requests, also over IPv6.
	Protocol policy.Protocol
	// Port; 0 for ICMP.
	Port uint16
}

// Cell is the test of one flow: the decision of policy, and the result of the packets.
type Cell struct {
	// From is the index of the party that sends. Column is the index of the destination in
	// Matrix.Columns.
	From, Column int
	// Flow is the flow of the last attempt.
	Flow verdict.Flow
	// Allowed means that policy allows the flow.
	Allowed bool
	// Answer is the result of the packets.
	Answer probe.Answer
}

// Differs reports whether packets and policy disagree.
func (c Cell) Differs() bool {
	if c.Allowed {
		return c.Answer.Outcome != probe.Passed
	}
	return c.Answer.Outcome != probe.Blocked
}

// mark returns the character that shows the cell in a table.
func (c Cell) mark() string {
	switch {
	case !c.Differs() && c.Allowed:
		return "."
	case !c.Differs():
		return "X"
	case c.Allowed:
		return "?"
	}
	return "!"
}

// Matrix has the results of all tests. After Measure has returned, the Matrix does not change, and
// is safe for concurrent use.
type Matrix struct {
	// Parties in the order of the rows.
	Parties []node.Party
	// Columns in order.
	Columns []Column
	// Cells in order of row, then column, then family.
	Cells []Cell
}

// Legend explains the characters and colours that Text uses.
func Legend(coloured bool) string {
	if !coloured {
		return legend
	}
	lines := legend
	for _, mark := range []string{".", "X", "!", "?"} {
		lines = strings.Replace(lines, "  "+mark+"  ", "  "+colour(mark)+"  ", 1)
	}
	return lines
}

const legend = `Rows are senders, columns are receivers. Each cell has the mark of IPv4, then the mark of IPv6.
  .  allowed: the answer arrived            X  blocked: no answer
  !  NOT BLOCKED, but policy denies it      ?  NO ANSWER, but policy allows it
`

// colour colours marks for a terminal: green for allowed, grey for blocked, red for a result that
// differs from policy.
func colour(marks string) string {
	return strings.NewReplacer(
		".", "\x1b[32m.\x1b[0m", "X", "\x1b[90mX\x1b[0m", "!", "\x1b[1;31m!\x1b[0m", "?", "\x1b[1;31m?\x1b[0m",
	).Replace(marks)
}

// Differences returns a text for each cell where packets and policy disagree.
func (m *Matrix) Differences() []string {
	var out []string
	for _, c := range m.Cells {
		if !c.Differs() {
			continue
		}
		decision, result := "blocks", "an answer arrived"
		if c.Allowed {
			decision, result = "allows", "no answer arrived"
		}
		if c.Answer.Err != nil {
			result = c.Answer.Err.Error()
		}
		to := m.Parties[m.Columns[c.Column].To].Name
		out = append(out, fmt.Sprintf("%s -> %s: %s: policy %s it; %s", m.Parties[c.From].Name, to, c.Flow, decision,
			result))
	}
	return out
}

// String returns Text without colours.
func (m *Matrix) String() string { return m.Text(Style{}) }

// Style has the options of Text.
type Style struct {
	// Coloured uses the colours of Legend.
	Coloured bool
	// Width is the number of columns of the terminal: a wider table is drawn in parts. 0 means no
	// limit.
	Width int
}

// Text returns the table, with a line break at the end of each line. The heading has three lines,
// with the names, protocols and ports of the destinations. Then there is a row for each sender.
func (m *Matrix) Text(style Style) string {
	marks := map[[2]int]string{}
	for _, c := range m.Cells {
		at := [2]int{c.From, c.Column}
		if c.Flow.Src.Is6() && marks[at] == "" {
			marks[at] = " " // there is no IPv4
		}
		marks[at] += c.mark()
	}
	rows := make([][]string, 3+len(m.Parties))
	for i := range rows {
		rows[i] = []string{""}
		if i >= 3 {
			rows[i][0] = m.Parties[i-3].Name
		}
	}
	for j, column := range m.Columns {
		port := ""
		if column.Port != 0 {
			port = fmt.Sprint(column.Port)
		}
		rows[0] = append(rows[0], "")
		rows[1] = append(rows[1], strings.ToLower(column.Protocol.String()))
		rows[2] = append(rows[2], port)
		for i := range m.Parties {
			rows[i+3] = append(rows[i+3], marks[[2]int{i, j}])
		}
	}
	return m.draw(rows, style)
}

// draw aligns the rows. The name of a party, in the first row, spans all its columns.
func (m *Matrix) draw(rows [][]string, style Style) string {
	widths := make([]int, len(m.Columns)+1)
	for _, row := range rows {
		for j, text := range row {
			widths[j] = max(widths[j], len(text))
		}
	}
	var out strings.Builder
	width := widths[0] // width of the part so far
	part := [][]string{}
	flush := func() {
		for _, cells := range part {
			out.WriteString(strings.TrimRight(strings.Join(cells, ""), " ") + "\n")
		}
	}
	for first, last := 0, 0; first < len(m.Columns); first = last {
		for last = first; last < len(m.Columns) && m.Columns[last].To == m.Columns[first].To; last++ {
		}
		block, span := m.block(rows, widths, first, last, style.Coloured)
		if len(part) > 0 && style.Width > 0 && width+span > style.Width {
			flush()
			out.WriteString("\n")
			part, width = nil, widths[0]
		}
		if len(part) == 0 {
			for _, row := range rows {
				part = append(part, []string{fmt.Sprintf("%-*s", widths[0], row[0])})
			}
		}
		for i := range part {
			part[i] = append(part[i], block[i])
		}
		width += span
	}
	flush()
	return out.String()
}

// block returns the lines of the columns of one party, and how wide they are.
func (m *Matrix) block(rows [][]string, widths []int, first, last int, coloured bool) (lines []string, span int) {
	name := m.Parties[m.Columns[first].To].Name
	span = 1
	for j := first; j < last; j++ {
		span += widths[j+1] + 1
	}
	padding := max(0, len(name)+2-span)
	span += padding
	lines = append(lines, fmt.Sprintf("  %-*s", span-2, name))
	for i, row := range rows[1:] {
		line := " "
		for j := first + 1; j <= last; j++ {
			cell := fmt.Sprintf(" %-*s", widths[j], row[j])
			if coloured && i >= 2 {
				cell = colour(cell)
			}
			line += cell
		}
		lines = append(lines, line+strings.Repeat(" ", padding))
	}
	return lines, span
}
